"""Effective rank of the transition that a group element causes."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from lt2theory.report.figures.axes import (
    new_figure,
    place_legend,
)
from lt2theory.report.frames import numbers, require_columns, require_one_row_each
from lt2theory.report.style import COLOURS, INK, MUTED, styled
from tasks.names import unknown_name

MOST_NAMED = 24


@styled
def rank_by_element(
    frame: pd.DataFrame,
    *,
    best: str,
    statistic: str = "effective rank (entropy)",
    ax: Axes | None = None,
) -> Figure:
    """Effective rank for every group element, beside what its permutation needs.

    Elements stand in ascending order of `reference`. The best head has bars that hold the middle
    nine tenths of the tokens; the medians of the other heads are grey dots.

    Args:
        frame: One row for each `head` (a name) and `element`: `median`, `low`, `high` and
            `reference` (n - cycles, theory E2).
        best: The head that is drawn in full.
        statistic: What was measured, for the ordinate.
        ax: Panel of another figure to draw into; None makes a figure.

    Returns:
        The figure.

    Raises:
        ValueError: If the table lacks the best head.
    """
    require_columns(
        frame, ["head", "element", "median", "low", "high", "reference"], "rank by element"
    )
    require_one_row_each(frame, ["head", "element"], "rank by element")
    names = frame["head"].astype(str)
    chosen = frame[names == best].sort_values("reference", kind="stable")
    if chosen.empty:
        raise ValueError(unknown_name("best", best, names))
    order = {str(element): place for place, element in enumerate(chosen["element"])}
    figure, (axes,) = new_figure(height=3.6, ax=ax)
    places = np.arange(len(chosen))
    axes.hlines(
        numbers(chosen, "reference"), places - 0.42, places + 0.42, color=INK, linewidth=1.6
    )
    others = frame[(names != best) & frame["element"].astype(str).isin(list(order))]
    axes.plot(
        [order[str(element)] + 0.2 for element in others["element"]],
        numbers(others, "median"),
        color=MUTED,
        marker=".",
        linestyle="",
        alpha=0.5,
        label="other heads",
    )
    axes.vlines(
        places, numbers(chosen, "low"), numbers(chosen, "high"), color=COLOURS[0], linewidth=1.6
    )
    axes.plot(
        places, numbers(chosen, "median"), color=COLOURS[0], marker="o", linestyle="", label=best
    )
    shown = list(order) if len(order) <= MOST_NAMED else [""] * len(order)
    axes.set_xticks(places, shown, rotation=90 if len(order) > 8 else 0)
    axes.set_xlim(-0.6, len(order) - 0.4)
    top = max(float(np.nanmax(numbers(frame, name))) for name in ("high", "reference"))
    axes.set_ylim(-0.15, top + 0.3)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=False, axis="x")
    axes.set_xlabel("group element that is read")
    axes.set_ylabel(statistic)
    keys = [
        Line2D([], [], color=INK, linewidth=1.6, label="n - cycles (E2)"),
        Line2D([], [], color=COLOURS[0], marker="o", linewidth=1.6, label=best),
    ]
    if len(others):
        grey = Line2D([], [], color=MUTED, marker=".", linestyle="", label="other heads")
        keys.append(grey)
    place_legend(axes, keys, columns=len(keys), ax=ax)
    return figure
