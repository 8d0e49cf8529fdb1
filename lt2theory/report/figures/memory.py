"""What matrix states hold over time."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from lt2theory.report.figures.axes import (
    Panels,
    arm_legend,
    new_figure,
    styles_for,
)
from lt2theory.report.frames import numbers, require_columns
from lt2theory.report.style import MUTED, ArmStyle, styled

LEVELS = np.array([0.05, 0.5, 0.95])


@styled
def state_rank_over_time(
    frame: pd.DataFrame,
    *,
    kind: str = "entropy",
    styles: Mapping[str, ArmStyle] | None = None,
    ax: Panels | None = None,
) -> Figure:
    """Rank (left) and effective rank (right) of the matrix states against the tokens read.

    Args:
        frame: One row a state: `label`, `num_tokens`, `rank`, `bound` (theory M5) and
            `<kind>_rank`. Lines are medians, bands the middle nine tenths.
        kind: Definition of effective rank, named on the axis.
        styles: Looks of the labels.
        ax: Panels of another figure to draw into, as many as are drawn; None makes a figure.

    Returns:
        The figure.
    """
    effective = f"{kind}_rank"
    needed = ["label", "num_tokens", "rank", "bound", effective]
    require_columns(frame, needed, "state rank over time")
    looks = styles_for(frame["label"], styles)
    figure, (left, right) = new_figure(2, height=3.4, ax=ax)
    for name, look in looks.items():
        arm = frame[frame["label"].astype(str) == name]
        for axes, column in ((left, "rank"), (right, effective)):
            spread = arm.groupby("num_tokens")[column].quantile(LEVELS).unstack()
            x, (low, middle, high) = spread.index.to_numpy(), spread.to_numpy(dtype=float).T
            axes.fill_between(x, low, high, color=look.colour, alpha=0.15, linewidth=0)
            axes.plot(x, middle, color=look.colour, linestyle=look.dash, label=name)
        bound = arm.groupby("num_tokens")["bound"].max()
        left.plot(
            bound.index.to_numpy(),
            bound.to_numpy(dtype=float),
            color=look.colour,
            linestyle=(0, (1, 1)),
            linewidth=2.4,
            alpha=0.5,
            label=f"{name} (bound)",
        )
    for axes in (left, right):
        axes.set_xlabel("tokens read")
        axes.set_xlim(0, float(np.max(numbers(frame, "num_tokens"))) * 1.02)
        axes.set_ylim(0, float(np.max(numbers(frame, "bound"))) * 1.06)
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    left.set_ylabel("rank of the state")
    right.set_ylabel(f"effective rank ({kind})")
    bound_key = Line2D([], [], color=MUTED, linestyle=(0, (1, 1)), linewidth=2.4, label="bound M5")
    arm_legend(left, looks, markers=False, extra=[bound_key], ax=ax)
    return figure
