"""Throughput and memory against the length, with what did not fit marked as such."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lt2theory.report.figures.axes import (
    Panels,
    arm_legend,
    length_axis,
    new_figure,
    styles_for,
)
from lt2theory.report.frames import numbers, require_columns, require_one_row_each
from lt2theory.report.style import MUTED, ArmStyle, styled

NAMES = {"tokens_per_second": "tokens a second", "peak_gib": "GPU memory at its highest (GiB)"}


@styled
def cost_by_length(
    frame: pd.DataFrame,
    *,
    column: str = "tokens_per_second",
    styles: Mapping[str, ArmStyle] | None = None,
    ax: Panels | None = None,
) -> Figure:
    """A cost of every arm against the length, a panel a heading (LT2's Figure 2).

    Args:
        frame: One row an arm, heading and length: `label`, `heading`, `length`, the column, and
            `fits`: False draws a cross at the foot of the panel in place of a point.
        column: What is drawn.
        styles: Looks of the labels.
        ax: Panels of another figure to draw into, as many as are drawn; None makes a figure.

    Returns:
        The figure.
    """
    needed = ["label", "heading", "length", column, "fits"]
    require_columns(frame, needed, "costs by length")
    require_one_row_each(frame, ["label", "heading", "length"], "costs by length")
    looks = styles_for(frame["label"], styles)
    headings = list(dict.fromkeys(frame["heading"].astype(str)))
    figure, panels = new_figure(len(headings), height=3.6, ax=ax)
    for axes, heading in zip(panels, headings, strict=True):
        part = frame[frame["heading"].astype(str) == heading]
        axes.set_yscale("log")
        length_axis(axes, numbers(part, "length"), "tokens of a row")
        axes.set_xticklabels([_short(x) for x in sorted(set(numbers(part, "length")))])
        axes.set_title(heading)
        axes.set_ylabel(NAMES.get(column, column))
        for row, (name, look) in enumerate(looks.items()):
            arm = part[part["label"].astype(str) == name].sort_values("length")
            _draw_arm(axes, arm, column, name, look, row)
        if not part["fits"].all():  # the crosses stand below every point
            low, high = axes.get_ylim()
            axes.set_ylim(bottom=low * (low / high) ** (0.05 * len(looks)))
    crossed = not bool(frame["fits"].all())
    key = Line2D([], [], color=MUTED, marker="x", linestyle="", label="out of memory")
    arm_legend(panels[0], looks, extra=[key] if crossed else [], ax=ax)
    return figure


def _draw_arm(
    axes: Axes, arm: pd.DataFrame, column: str, name: str, look: ArmStyle, row: int
) -> None:
    fits = arm["fits"].to_numpy(dtype=bool)
    x, y = numbers(arm, "length"), numbers(arm, column)
    known = fits & np.isfinite(y)
    axes.plot(
        x[known], y[known], color=look.colour, linestyle=look.dash, marker=look.marker, label=name
    )
    # Crosses of different arms stand one above the other.
    axes.plot(
        x[~fits],
        np.full(int((~fits).sum()), 0.03 + 0.045 * row),
        transform=axes.get_xaxis_transform(),
        color=look.colour,
        marker="x",
        linestyle="",
        label=f"{name} (out of memory)",
    )


def _short(length: float) -> str:
    """1024 as 1k."""
    return f"{length / 1024:g}k" if length >= 1024 else f"{length:g}"
