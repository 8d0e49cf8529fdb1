"""Section of an analysis report about influence: from how far back do loops bring information?"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lt2theory.report.content import ReportFigure, Section
from lt2theory.report.figures import influence_map
from lt2theory.report.tables import counted


def influence_section(tables: Mapping[str, pd.DataFrame], facts: Mapping[str, Any]) -> Section:
    """From how far back the loops bring information to the last token.

    Args:
        tables: As `lt2theory.experiments.analysis_tables.measure` makes them.
        facts: The setting, as `lt2theory.experiments.analyze.describe` gives it.

    Returns:
        The section.
    """
    table = tables["influence"]
    loops = [int(count) for count in table["loops_done"].unique()]
    found = []
    for count in loops:
        row = table[table["loops_done"] == count].sort_values("distance")
        furthest = int(row.loc[row["reached"], "distance"].max()) if row["reached"].any() else 0
        within = int((row["share"].cumsum() < 0.99 * row["share"].sum()).sum())
        reached = counted(furthest + 1, "token")
        said = f"After {counted(count, 'loop')} the influence reaches {reached} back"
        found.append(f"{said}, itself included; 99 % of it comes from the last {within + 1}.")
    reach, law = tables.get("reach"), tables.get("law")
    notes = [_probes(table)]
    if reach is None:
        notes.append(
            "A layer with a recurrence or full attention reaches everything: W1 and W3 are about "
            "windows and are not drawn."
        )
    else:
        bounds = reach.set_index("loops_done")["reach"]
        seen = table[table["reached"]].groupby("loops_done")["distance"].max() + 1
        kept = bool((seen <= bounds.reindex(seen.index)).all())
        found.append(
            f"The reach of W1 is {', '.join(str(bounds[count]) for count in loops)} tokens and is "
            + ("kept: every influence beyond it is exactly zero." if kept else "NOT kept.")
        )
    if law is not None:
        residual = float(law["residual"].iloc[0])
        notes.append(
            f"The law W3 is drawn with the residual weight a = {residual:.3f} that gives the "
            "measured mean distance after all loops; it assumes uniform attention."
            + (
                ""
                if bool(law["away_from_start"].iloc[0])
                else " The sequence is shorter than the reach, so that the law is cut off and the "
                "fit of a is biased upwards."
            )
        )
    return Section(
        title="Influence on the last token",
        question="From how far back do the loops bring information?",
        happened=found,
        figures=[
            ReportFigure(
                influence_map(
                    table.assign(value=table["share"]),
                    reach=reach,
                    law=None if law is None else law.assign(value=law["share"]),
                ),
                "Share of the influence (norm of the Jacobian of the residual stream at the last "
                "token with respect to each embedding) by distance and loops done.",
                f"Influence map. {' '.join(found)}",
            )
        ],
        notes=notes,
    )


def _probes(table: pd.DataFrame) -> str:
    first = table.iloc[0]
    how = (
        "exact Jacobians"
        if first["exact"]
        else f"{first['vector_jacobian_products']} random probes of the Jacobian"
    )
    return f"From {how} on {counted(int(first['instances']), 'instance')}."
