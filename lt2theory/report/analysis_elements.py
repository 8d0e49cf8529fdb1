"""Section of an analysis report about the group of a word problem: does a head carry it?"""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from lt2theory.analysis.representation import IDLE, PERMUTATION, TOLERANCE
from lt2theory.report.analysis_code_tables import head_name, with_spread
from lt2theory.report.analysis_codes import TITLE as CODES
from lt2theory.report.analysis_transitions import semantics
from lt2theory.report.content import ReportFigure, ReportTable, Section
from lt2theory.report.figures import rank_by_element
from lt2theory.report.tables import format_number

MOST_ELEMENTS = 30
TITLE = "The group, element by element"
QUESTION = (
    "Does a head carry the group as permutation matrices, so that the transition of g has rank "
    "n - cycles(g) (E2)?"
)
NOTHING_ERASED = (
    "This comparison does not apply: no mixer here erases, so that every transition is its gate "
    "and has no correction whose rank could be n - cycles (R8)."
)


def element_sections(tables: Mapping[str, pd.DataFrame], facts: Mapping[str, Any]) -> list[Section]:
    """Whether a head carries the group of a word problem as permutation matrices.

    Args:
        tables: As `lt2theory.experiments.analysis_tables.measure` makes them.
        facts: The setting, as `lt2theory.experiments.analyze.describe` gives it.

    Returns:
        One section, or none if the task is no word problem.
    """
    if "elements" not in tables:
        return []
    if not tables["transitions"]["mixer_erases"].any():
        return [Section(TITLE, QUESTION, happened=[NOTHING_ERASED])]
    elements, carried = tables["elements"], tables["representations"]
    first = carried.iloc[0]
    best = elements[
        (elements["layer"] == first["layer"]) & (elements["head"] == first["head"])
    ].sort_values(["reference", "element"])
    name = head_name(first)
    named = elements.assign(
        head=[head_name(row) for row in elements.to_dict("records")],
        median=elements["carried_median"],
        low=elements["carried_low"],
        high=elements["carried_high"],
    )
    found = _carried(carried, facts, named="group_readout" in tables)
    shown = pd.DataFrame(
        {
            "element": best["element"],
            "n - cycles": best["reference"],
            "effective rank": with_spread(best, "entropy"),
            "values above 0.1": with_spread(best, "absolute"),
            "largest value (median)": best["largest_median"].round(3),
            "tokens": best["count"],
        }
    )
    rows = carried.sort_values("deviation", kind="stable")
    nearest = pd.DataFrame(
        {
            "representation": rows["representation"],
            "nearest head": [head_name(row) for row in rows.to_dict("records")],
            "mean deviation": rows["deviation"],
            f"within {TOLERANCE:g}": rows["within"],
        }
    )
    figure = ReportFigure(
        rank_by_element(
            named[["head", "element", "median", "low", "high", "reference"]],
            best=name,
            statistic="effective rank (0 where idle)",
        ),
        "Effective rank of the composed transition of every group element in the head that comes "
        "nearest to n - cycles: median and middle nine tenths of the tokens.",
        f"Effective rank by element. {' '.join(found)}",
    )
    return [
        Section(
            title=TITLE,
            question=QUESTION,
            happened=found,
            figures=[figure],
            tables=[
                ReportTable(
                    shown.head(MOST_ELEMENTS),
                    f"{name}: mean and standard deviation over tokens after all loops.",
                ),
                ReportTable(
                    nearest,
                    "The nearest head for the ranks of several representations; the deviation is "
                    "the mean over elements of the mean over tokens of |effective rank - rank|.",
                ),
            ],
            notes=[
                f"A transition whose largest singular value is at most {IDLE:g} counts as rank 0 "
                "in deviations and in the figure (a reflection has 2): the entropy rank ignores "
                "the scale.",
                "Equal ranks do not prove a representation; unequal ones disprove it for that "
                "head. The model may also spread the group over several heads (E8).",
                *_rescan_note(facts),
            ],
        )
    ]


def _carried(carried: pd.DataFrame, facts: Mapping[str, Any], *, named: bool) -> list[str]:
    first = carried.iloc[0]
    where = head_name(first)
    deviation = format_number(first["deviation"], 2)
    if first["within"]:
        said = (
            "shows the ranks of the group, but in a product that acts on no single state (L1)"
            if semantics(facts) == "rescan"
            else "carries the group"
        )
        found = [
            f"{where.capitalize()} {said}: its effective rank deviates from n - cycles by "
            f"{deviation} in the mean (tolerance {TOLERANCE:g})."
        ]
    else:
        found = [
            f"No head shows n - cycles over all its key directions within {TOLERANCE:g}: the "
            f"nearest is {where}, with a mean deviation of {deviation}."
        ]
    others = carried[(carried["representation"] != PERMUTATION) & carried["within"]]
    # Ranks of zero throughout fit "nothing" whatever the model does; they name no representation.
    shown = others[~others["representation"].str.startswith("nothing")]
    found += [
        f"{head_name(row).capitalize()} shows the ranks of "
        f"{row['representation']} (deviation {format_number(row['deviation'], 2)})."
        for row in shown.to_dict("records")
    ]
    if named:
        found.append(
            "A head that carries a representation on some directions may change its others too: "
            f"what the states hold, and the ranks there, is under {CODES!r}."
        )
    elif not first["within"] and not len(shown):
        found.append(
            "None of the other representations listed below fits either (E8): the group may be "
            "spread over several heads, layers or loops, or carried outside the states."
        )
    return found


def _rescan_note(facts: Mapping[str, Any]) -> list[str]:
    if semantics(facts) != "rescan":
        return []
    return [
        "Under rescan the product acts on no single state (L1). The comparison says what the "
        "factors of a token would do one after the other, not how the model tracks the group: two "
        "loops of one reflection each can track S_3 without any product of rank 2 (L6)."
    ]
