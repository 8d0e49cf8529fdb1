"""Singular values of the T-loop correction, one by one."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lt2theory.report.figures.axes import new_figure
from lt2theory.report.frames import numbers, require_columns
from lt2theory.report.style import COLOURS, INK, MUTED, styled

LARGEST = 2.0
"""Bound on every singular value: both the gates and the product have norm at most 1 (theory S1)."""

ORTHOGONAL = "orthogonal keys"


@styled
def spectrum_by_loops(
    frame: pd.DataFrame, *, most_values: int = 8, ax: Axes | None = None
) -> Figure:
    """Singular values of the correction against the number of loops.

    Each number of loops T has T slots, from the largest singular value to the smallest; more than T
    cannot differ from zero (theory R2, R7), and none exceeds 2 (S1). A thick bar holds the middle
    half of the tokens and heads, a thin one the middle nine tenths, the marker is the median; the
    open diamond is the median of what orthogonal keys with the same erase strengths give (R3, R6).

    Args:
        frame: One row a token, head, number of loops and singular value: `num_loops`, `index` (0 is
            the largest), `singular_value`, `orthogonal_ideal`.
        most_values: Slots that are drawn for one T, the largest values first.
        ax: Panel of another figure to draw into; None makes a figure.

    Returns:
        The figure.
    """
    needed = ["num_loops", "index", "singular_value", "orthogonal_ideal"]
    require_columns(frame, needed, "spectrum by loops")
    loops = [int(count) for count in np.unique(numbers(frame, "num_loops"))]
    figure, (axes,) = new_figure(height=3.6, ax=ax)
    for place, count in enumerate(loops):
        of_count = frame[numbers(frame, "num_loops") == count]
        indices = [int(i) for i in np.unique(numbers(of_count, "index"))][:most_values]
        spread = 0.8 / max(len(indices), 1)
        axes.hlines(LARGEST, place - 0.45, place + 0.45, color=INK, linewidth=1.4)
        for slot, index in enumerate(indices):
            cell = of_count[numbers(of_count, "index") == index]
            where = place + spread * (slot - (len(indices) - 1) / 2)
            _draw_value(axes, where, cell, index, spread)
    axes.set_xticks(range(len(loops)), [str(count) for count in loops])
    axes.set_xlim(-0.6, len(loops) - 0.4)
    top = max(LARGEST, float(np.nanmax(numbers(frame, "singular_value"))))
    axes.set_ylim(-0.06, 1.06 * top)
    axes.grid(visible=False, axis="x")
    axes.set_xlabel("loops T (a slot for each singular value, the largest first)")
    axes.set_ylabel("singular value of the correction")
    _explain(axes)
    return figure


def _draw_value(axes: Axes, where: float, cell: pd.DataFrame, index: int, spread: float) -> None:
    colour = COLOURS[index % len(COLOURS)]
    levels = [0.05, 0.25, 0.5, 0.75, 0.95]
    low, first, median, third, high = np.quantile(numbers(cell, "singular_value"), levels)
    axes.vlines(where, low, high, color=colour, linewidth=1.2)
    axes.vlines(where, first, third, color=colour, linewidth=5, alpha=0.55)
    axes.plot(where, median, color=colour, marker="o", linestyle="", label=f"value {index + 1}")
    axes.plot(
        where + 0.22 * spread,
        float(np.median(numbers(cell, "orthogonal_ideal"))),
        color=colour,
        marker="D",
        markerfacecolor="white",
        linestyle="",
        label=f"value {index + 1} ({ORTHOGONAL})",
    )


def _explain(axes: Axes) -> None:
    hollow = Line2D(
        [], [], color=MUTED, marker="D", markerfacecolor="white", linestyle="", label=ORTHOGONAL
    )
    keys = [
        Line2D([], [], color=INK, linewidth=1.4, label="bound 2 (S1)"),
        Line2D([], [], color=MUTED, marker="o", linestyle="", label="median"),
        Line2D([], [], color=MUTED, linewidth=5, alpha=0.55, label="middle half"),
        Line2D([], [], color=MUTED, linewidth=1.2, label="middle 90 %"),
        hollow,
    ]
    axes.legend(handles=keys, loc="upper left", bbox_to_anchor=(1.0, 1.0))
