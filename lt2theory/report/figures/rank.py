"""Rank of the T-loop transition: what was measured against the bound and the orthogonal ideal."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from lt2theory.report.figures.axes import arm_legend, new_figure, styles_for
from lt2theory.report.frames import numbers, require_columns
from lt2theory.report.style import INK, MUTED, ArmStyle, styled


@styled
def effective_rank_by_loops(
    frame: pd.DataFrame,
    *,
    kind: str = "entropy",
    styles: Mapping[str, ArmStyle] | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Distribution of the effective rank against the number of loops.

    The rank is that of the correction relative to the gate baseline, so at most T (theory R2, R7).
    A thick bar holds the middle half of the tokens and heads, a thin one the middle nine tenths,
    the marker is the median; the open diamond is what orthogonal keys with the same erase strengths
    would give (R3), the black step the bound T.

    Args:
        frame: One row a token and head: `label`, `num_loops`, `value`, and optionally `ideal`.
        kind: Definition of effective rank, named on the axis.
        styles: Looks of the arms.
        ax: Panel of another figure to draw into; None makes a figure.

    Returns:
        The figure.
    """
    require_columns(frame, ["label", "num_loops", "value"], "effective rank by loops")
    looks = styles_for(frame["label"], styles)
    loops = np.unique(numbers(frame, "num_loops"))
    figure, (axes,) = new_figure(height=3.6, ax=ax)
    for place, bound in enumerate(loops):
        axes.hlines(bound, place - 0.45, place + 0.45, color=INK, linewidth=1.4)
    offsets = np.linspace(-0.3, 0.3, len(looks)) if len(looks) > 1 else np.zeros(1)
    for offset, (name, look) in zip(offsets, looks.items(), strict=True):
        arm = frame[frame["label"].astype(str) == name]
        for place, bound in enumerate(loops):
            cell = arm[numbers(arm, "num_loops") == bound]
            if len(cell):
                _draw_cell(axes, place + float(offset), cell, look, name)
    axes.set_xticks(range(len(loops)), [f"{bound:g}" for bound in loops])
    axes.set_xlim(-0.6, len(loops) - 0.4)
    axes.set_ylim(-0.08, float(loops.max()) * 1.08)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(visible=False, axis="x")
    axes.set_xlabel("loops T")
    axes.set_ylabel(f"effective rank ({kind})")
    arm_legend(axes, looks, ax=ax)
    _explain(axes, ideal="ideal" in frame.columns)
    return figure


def _draw_cell(axes: Axes, place: float, cell: pd.DataFrame, look: ArmStyle, name: str) -> None:
    low, first, median, third, high = np.quantile(
        numbers(cell, "value"), [0.05, 0.25, 0.5, 0.75, 0.95]
    )
    axes.vlines(place, low, high, color=look.colour, linewidth=1.2)
    axes.vlines(place, first, third, color=look.colour, linewidth=5, alpha=0.55)
    axes.plot(place, median, color=look.colour, marker=look.marker, linestyle="", label=name)
    if "ideal" in cell.columns:
        axes.plot(
            place + 0.07,
            float(np.median(numbers(cell, "ideal"))),
            color=look.colour,
            marker="D",
            markerfacecolor="white",
            markersize=6,
            linestyle="",
            label=f"{name} (orthogonal keys)",
        )


def _explain(axes: Axes, *, ideal: bool) -> None:
    keys = [
        Line2D([], [], color=INK, linewidth=1.4, label="bound T"),
        Line2D([], [], color=MUTED, linewidth=5, alpha=0.55, label="middle half"),
        Line2D([], [], color=MUTED, linewidth=1.2, label="middle 90 %"),
    ]
    if ideal:
        keys.append(
            Line2D(
                [],
                [],
                color=MUTED,
                marker="D",
                markerfacecolor="white",
                linestyle="",
                label="orthogonal keys",
            )
        )
    axes.legend(handles=keys, loc="upper left", bbox_to_anchor=(1.0, 1.0))
