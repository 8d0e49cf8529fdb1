"""Sections of an analysis report about training: residual size, attention sinks, gradients."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lt2theory.report.content import ReportFigure, ReportTable, Section
from lt2theory.report.figures import saw_tooth
from lt2theory.report.tables import format_number


def saw_tooth_section(tables: Mapping[str, pd.DataFrame], facts: Mapping[str, Any]) -> Section:
    """Whether the residual stream grows over the loops and a sink forms.

    Args:
        tables: As `lt2theory.experiments.analysis_tables.measure` makes them.
        facts: The setting, as `lt2theory.experiments.analyze.describe` gives it.

    Returns:
        The section.
    """
    rms, mass = tables["residuals"], tables["first_token"]
    last_block = rms[rms["layer"] == rms["layer"].max()].groupby("loop")["rms"].median()
    per_loop = ", ".join(format_number(float(value), 2) for value in last_block)
    found = [f"Median RMS of the residual stream at the end of each loop's blocks: {per_loop}."]
    for kind, cell in mass.groupby("kind"):
        blocks = cell.groupby(["loop", "layer"])["mass"].mean().sort_values().reset_index()
        most = blocks.iloc[-1]
        found.append(
            f"Most first-token mass by {kind}: {format_number(float(most['mass']), 3)} in loop "
            f"{int(most['loop']) + 1}, layer {int(most['layer']) + 1} (equal weights would give "
            f"{format_number(float(cell['uniform'].mean()), 3)})."
        )
    gated = mass[mass["passed"].notna()]
    if len(gated):
        found.append(
            f"Of the attention mass on the first token, {format_number(gated['mass'].mean(), 3)} "
            f"in the mean, the output gate lets {format_number(gated['passed'].mean(), 3)} through."
        )
    return Section(
        title="Saw-tooth: residual size and first-token mass",
        question="Does the residual stream grow over the loops, and does a sink form?",
        happened=found,
        figures=[
            ReportFigure(
                saw_tooth(rms, mass),
                "Left: RMS (root mean square) of the residual stream after every block, median "
                "over tokens; the band is the middle nine tenths of those behind the first. Right: "
                "share of a head's weights on the first token, mean over heads (dots: single "
                "heads); for recurrences shares of the absolute weights with which values are "
                "read.",
                f"Saw-tooth. {' '.join(found)}",
            )
        ],
        notes=[] if facts["output_gate"] else ["The softmax layers, if any, have no output gate."],
    )


def gradient_section(tables: Mapping[str, pd.DataFrame]) -> Section:
    """Which loops the task's loss pulls on.

    Args:
        tables: As `lt2theory.experiments.analysis_tables.measure` makes them.

    Returns:
        The section.
    """
    weights, states = tables["weight_gradients"], tables["state_gradients"]
    found = [
        f"Loop {row['loop'] + 1} contributes {100 * row['share']:.0f} % of the gradient "
        f"(norm {row['norm']:.3g}, cosine to the whole {row['cosine']:.2f})."
        for row in weights.to_dict("records")
    ]
    shown = weights.assign(loop=weights["loop"] + 1)
    return Section(
        title="Gradient of the shared weights, loop by loop",
        question="Which loops does the task's loss pull on?",
        happened=found,
        tables=[
            ReportTable(
                shown,
                "Contribution of every loop to the gradient of the block weights: norm, share "
                "(inner product with the whole over its squared norm) and cosine to the whole.",
            ),
            ReportTable(
                states.rename(columns={"loops_done": "loops done"}),
                "Norm of the gradient of h^(tau), the stream between the loops.",
            ),
        ],
        notes=["The loops' contributions sum to the ordinary gradient of the shared weights."],
    )
