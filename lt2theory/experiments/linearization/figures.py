"""The figures of docs/linearization-study.md: functions of the table."""

from collections.abc import Callable

import pandas as pd
from matplotlib.figure import Figure

from lt2theory.experiments.linearization.fits import size_points
from lt2theory.experiments.linearization.views import Place, arms, ended, lengths, pooled
from lt2theory.report.figures.linearization import divergence_by_budget, found_by_length

Drawing = Callable[[pd.DataFrame], Figure | None]


def needles(table: pd.DataFrame) -> Figure | None:
    """Numbers found by length, of the seven mixers and their teacher.

    Args:
        table: The table.

    Returns:
        The figure, or None while nothing was measured.
    """
    return _needles(ended(table, "mixers"), lambda arm: not arm.endswith("-tiled"))


def hybrid_needles(table: pd.DataFrame) -> Figure | None:
    """Words found by length, of the hybrids and their teacher.

    Args:
        table: The table.

    Returns:
        The figure, or None while nothing was measured.
    """
    return _needles(ended(table, "hybrids"), lambda arm: arm != "selection", kind="word")


def budgets(table: pd.DataFrame) -> Figure | None:
    """Divergence by budget, size and mixer.

    Args:
        table: The table.

    Returns:
        The figure, or None while nothing was measured.
    """
    points = size_points(ended(table, "sizes"))
    if points.empty:
        return None
    return divergence_by_budget(points.rename(columns={"mixer": "label"}))


def _needles(
    rows: pd.DataFrame, wanted: Callable[[str], bool], *, kind: str = "number"
) -> Figure | None:
    names = [arm for arm in arms(rows) if wanted(arm)]
    found = []
    for label, arm, model in [("teacher", name, "teacher") for name in names[:1]] + [
        (name, name, "student") for name in names
    ]:
        for length in lengths(rows, "needle"):
            one = pooled(rows, arm, Place("needle", "found", model, kind, length))
            if one is not None:
                place = {"label": label, "length": length, "value": one.value}
                found.append(place | {"low": one.low, "high": one.high})
    return found_by_length(pd.DataFrame(found)) if found else None


FIGURES: dict[str, tuple[Drawing, str]] = {
    "linearization-needles": (
        needles,
        "Numbers found in a repeated sentence, by tokens of the text; students learnt on 512.",
    ),
    "linearization-hybrids": (
        hybrid_needles,
        "Words found by the looped teacher and its students, by bytes of the text.",
    ),
    "linearization-budgets": (
        budgets,
        "Divergence from the teacher by tokens, teachers of three sizes.",
    ),
}
"""Name of the file, what draws it, and its caption."""
