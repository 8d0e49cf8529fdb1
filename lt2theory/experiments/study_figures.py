"""The figures of docs/study.md: functions of a study's table."""

from collections.abc import Callable, Mapping

import pandas as pd
from matplotlib.figure import Figure

from lt2theory.experiments.study_recipes import FAMILIES, RUNGS
from lt2theory.experiments.study_rules_words import FAR
from lt2theory.experiments.study_views import stages_reached
from lt2theory.experiments.study_words import LENGTHS, SETTLED
from lt2theory.report.figures.curves import learning_curves
from lt2theory.report.figures.lengths import exact_prefix_panels
from lt2theory.report.figures.stages import stages_by_family
from lt2theory.report.views import exact_prefixes, training_curves

RECALL = {f"recall-{family}-t{loops}": (family, loops) for family in FAMILIES for loops in (1, 4)}
LOOPS = {"S3": (2,), "S4": (2,), "A5": (2,), "S5": (2, 4)}
"""Loops drawn beside one, by group; the last suffice with one factor each (theory E8)."""
SETTLED_LOOPS = {"S4": (2,), "A5": (2,), "S5": (2, 4)}
"""The same for arms that stay at each length."""
S5 = {"s5-t1": "T=1", "s5-t4-rescan": "T=4 rescan", "s5-t4-accumulate": "T=4 accumulate"}

Drawing = Callable[[pd.DataFrame], Figure | None]


def reached(table: pd.DataFrame) -> Figure | None:
    """Stage reached by every seed of block (1).

    Args:
        table: A study's table.

    Returns:
        The figure, or None while no run has ended.
    """
    rows = stages_reached(table[table["label"].isin(RECALL)])
    if rows.empty:
        return None
    names = [RECALL[str(label)] for label in rows["label"]]
    frame = rows.assign(
        family=[family for family, _ in names], arm=[f"T={loops}" for _, loops in names]
    )
    frame = frame.sort_values(["arm", "seed"], kind="stable")
    place = {family: number for number, family in enumerate(FAMILIES)}
    frame = frame.sort_values("family", key=lambda names: names.map(place), kind="stable")
    return stages_by_family(frame, stages=RUNGS, counts="swaps")


def recall_curves(table: pd.DataFrame) -> Figure | None:
    """Learning curves of block (1) with four loops.

    Args:
        table: A study's table.

    Returns:
        The figure, or None while there is no curve.
    """
    return _curves(table, {label: f for label, (f, loops) in RECALL.items() if loops == 4}, 0.9)


def s5_curves(table: pd.DataFrame) -> Figure | None:
    """Learning curves of S5.

    Args:
        table: A study's table.

    Returns:
        The figure, or None while there is no curve.
    """
    return _curves(table, S5, 0.99)


def beyond_training(table: pd.DataFrame) -> Figure | None:
    """Words that are right so far, along words of four times the training length, by group.

    Args:
        table: A study's table.

    Returns:
        The figure, or None while no arm of a group was tested.
    """
    return _beyond(table, LOOPS)


def beyond_training_settled(table: pd.DataFrame) -> Figure | None:
    """The same of the arms that stay at each length.

    Args:
        table: A study's table.

    Returns:
        The figure, or None while no arm of a group was tested.
    """
    return _beyond(table, SETTLED_LOOPS, "-settled")


def _beyond(
    table: pd.DataFrame, panels: Mapping[str, tuple[int, ...]], more: str = ""
) -> Figure | None:
    """A panel a group and number of loops; one loop beside them has no arm that stays."""
    frames = []
    for group, loops in ((group, loops) for group, several in panels.items() for loops in several):
        arm = f"{group.lower()}-t{loops}"
        names = {
            f"{group.lower()}-t1": "one loop",
            f"{arm}-rescan{more}": "more loops, rescan",
            f"{arm}-accumulate{more}": "more loops, accumulate",
        }
        rows = exact_prefixes(table[table["label"].isin(names)], FAR)
        panel = f"{group}, T = 1, {loops}"
        frames.append(rows.assign(label=rows["label"].map(names), group=panel))
    frame = pd.concat(frames, ignore_index=True)
    return None if frame.empty else exact_prefix_panels(frame, training_length=LENGTHS[-1])


def _curves(table: pd.DataFrame, names: Mapping[str, str], mark: float) -> Figure | None:
    rows = table[table["label"].isin(names)]
    curves = training_curves(rows)
    if curves.empty:
        return None
    renamed = curves.assign(label=[names[str(label)] for label in curves["label"]])
    return learning_curves(renamed, pass_mark=mark)


FIGURES: dict[str, tuple[Drawing, str]] = {
    "study-reached": (reached, "The largest stage that every seed solved, with one loop and four."),
    "study-recall-curves": (
        recall_curves,
        "Block 1 with four loops: one line a seed; it falls where a harder stage begins.",
    ),
    "study-words": (
        beyond_training,
        "Word problems: share of words right at every token so far, one line a seed. The dotted "
        "line is the longest training length, which one loop did not come to: it failed the first, "
        "8 tokens of S3 and 16 of the others.",
    ),
    "study-words-settled": (
        beyond_training_settled,
        f"The same of arms that took at least {SETTLED} steps of each length; one loop as above.",
    ),
    "study-s5-curves": (s5_curves, "S5, one line a seed; it falls where longer words begin."),
}
"""Name of the file, what draws it, and its caption."""
