"""Outcomes of runs: how many seeds solved the task, and how soon."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lt2theory.report.figures.axes import (
    new_figure,
    place_legend,
    styles_for,
)
from lt2theory.report.frames import in_order, numbers, require_columns, require_one_row_each
from lt2theory.report.intervals import median_steps
from lt2theory.report.style import INK, MUTED, ArmStyle, styled


@styled
def success_rates(
    frame: pd.DataFrame, *, styles: Mapping[str, ArmStyle] | None = None, ax: Axes | None = None
) -> Figure:
    """Share of seeds that solved the task, with its interval, one row an arm.

    Args:
        frame: As `lt2theory.report.statistics.success_table` makes it: `label`, `successes`, `n`,
            `rate`, `low`, `high`; one row an arm.
        styles: Looks of the arms.
        ax: Panel of another figure to draw into; None makes a figure.

    Returns:
        The figure.
    """
    require_columns(frame, ["label", "successes", "n", "rate", "low", "high"], "success rates")
    require_one_row_each(frame, ["label"], "success rates")
    looks = styles_for(frame["label"], styles)
    figure, (axes,) = new_figure(height=_height(len(frame)), ax=ax)
    for row, (name, look) in enumerate(looks.items()):
        arm = frame[frame["label"].astype(str) == name].iloc[0]
        axes.hlines(row, arm["low"], arm["high"], color=look.colour, linewidth=2.2, alpha=0.75)
        axes.plot(arm["rate"], row, color=look.colour, marker=look.marker, markersize=7, label=name)
        axes.annotate(
            f"{arm['successes']} of {arm['n']}",
            (1.02, row),
            xycoords=axes.get_yaxis_transform(),
            va="center",
            fontsize=9,
        )
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("share of seeds that solved the task (dot), with its interval (bar)")
    _arm_rows(axes, list(looks))
    return figure


@styled
def steps_to_solve(
    frame: pd.DataFrame, *, styles: Mapping[str, ArmStyle] | None = None, ax: Axes | None = None
) -> Figure:
    """Steps at which each seed solved the task; unsolved seeds as open arrows at their last step.

    Args:
        frame: One row a run: `label`, `seed`, `solved` (bool) and `steps`: steps to solve, or steps
            tried where the run did not solve (censored).
        styles: Looks of the arms.
        ax: Panel of another figure to draw into; None makes a figure.

    Returns:
        The figure. A bar marks the median wherever at least half of the seeds fix it.
    """
    require_columns(frame, ["label", "seed", "solved", "steps"], "steps to solve")
    require_one_row_each(frame, ["label", "seed"], "steps to solve")
    looks = styles_for(frame["label"], styles)
    figure, (axes,) = new_figure(height=_height(len(looks)) + 0.25, ax=ax)
    for row, (name, look) in enumerate(looks.items()):
        arm = frame[frame["label"].astype(str) == name].sort_values("seed")
        steps, solved = numbers(arm, "steps"), arm["solved"].to_numpy(dtype=bool)
        heights = row + np.linspace(-0.22, 0.22, len(arm)) if len(arm) > 1 else np.array([row])
        axes.plot(
            steps[solved],
            heights[solved],
            linestyle="",
            color=look.colour,
            marker=look.marker,
            alpha=0.85,
            label=name,
        )
        axes.plot(
            steps[~solved],
            heights[~solved],
            linestyle="",
            color=look.colour,
            marker=">",
            markerfacecolor="white",
            markersize=6,
            label=f"{name} (not solved)",
        )
        median = median_steps(steps, solved).value
        if np.isfinite(median):
            axes.vlines(median, row - 0.34, row + 0.34, color=INK, linewidth=1.6)
    # Runs that all diverged at their first step have taken none.
    axes.set_xlim(0, max(float(numbers(frame, "steps").max()), 1.0) * 1.05)
    axes.set_xlabel("training steps")
    _arm_rows(axes, in_order(frame["label"]))
    place_legend(axes, _step_keys(), columns=3, ax=ax)
    return figure


def _step_keys() -> list[Line2D]:
    return [
        Line2D([], [], linestyle="", color=MUTED, marker="o", label="solved at this step"),
        Line2D(
            [],
            [],
            linestyle="",
            color=MUTED,
            marker=">",
            markerfacecolor="white",
            label="not solved when the budget ended",
        ),
        Line2D([], [], linestyle="", color=INK, marker="|", markersize=11, label="median"),
    ]


def _height(rows: int) -> float:
    return 0.75 + 0.42 * rows


def _arm_rows(axes: Axes, names: Sequence[str]) -> None:
    """Arms from top to bottom in the order of the table."""
    axes.set_yticks(range(len(names)), list(names))
    axes.set_ylim(len(names) - 0.45, -0.55)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
