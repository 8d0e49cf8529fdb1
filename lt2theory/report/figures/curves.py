"""Learning curves: what every seed did at every evaluation."""

from collections.abc import Mapping

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lt2theory.report.figures.axes import (
    Panels,
    accuracy_axis,
    arm_legend,
    mark_vertical,
    new_figure,
    styles_for,
)
from lt2theory.report.figures.margins import draw_floors, draw_pass_mark, label_margin
from lt2theory.report.figures.ordinates import log_ordinate
from lt2theory.report.frames import numbers, require_columns
from lt2theory.report.style import ArmStyle, styled

PANELS = {"loss": "training loss (nats)", "scored_accuracy": "scored accuracy (eval split)"}


@styled
def learning_curves(
    frame: pd.DataFrame,
    *,
    floors: Mapping[str, float] | None = None,
    pass_mark: float | None = None,
    promotions: Mapping[str, float] | Mapping[str, int] | None = None,
    styles: Mapping[str, ArmStyle] | None = None,
    ax: Panels | None = None,
) -> Figure:
    """Loss and scored accuracy against the step, one line a seed, arms as colours.

    Args:
        frame: One row a measurement: `label`, `seed`, `step`, `metric` (`loss` or
            `scored_accuracy`; others are ignored) and `value`. A panel appears for each of the two
            metrics that occurs.
        floors: Accuracy of each named shortcut, drawn dashed on the accuracy panel.
        pass_mark: Accuracy that promotes, or None.
        promotions: Text and step of vertical marks, for instance where a stage was passed.
        styles: Looks of the arms; see `arm_styles`.
        ax: Panels of another figure to draw into, as many as are drawn; None makes a figure.

    Returns:
        The figure.

    Raises:
        ValueError: A column is missing, or neither metric occurs.
    """
    require_columns(frame, ["label", "seed", "step", "metric", "value"], "learning curves")
    panels = [metric for metric in PANELS if (frame["metric"] == metric).any()]
    if not panels:
        raise ValueError(
            f"learning curves: metric is {sorted(set(frame['metric']))}, needed is one of "
            f"{list(PANELS)}"
        )
    shown = frame[frame["metric"].isin(panels)]
    looks = styles_for(shown["label"], styles)
    figure, axes = new_figure(len(panels), ax=ax)
    for panel, metric in zip(axes, panels, strict=True):
        _draw_lines(panel, shown[shown["metric"] == metric], looks)
        panel.set_xlabel("training step")
        panel.set_ylabel(PANELS[metric])
        mark_vertical(panel, promotions or {})
        if metric == "scored_accuracy":
            _finish_accuracy(panel, floors, pass_mark)
        else:
            log_ordinate(panel, numbers(shown[shown["metric"] == metric], "value"))
    arm_legend(axes[0], looks, markers=False, ax=ax)
    return figure


def _draw_lines(panel: Axes, rows: pd.DataFrame, looks: Mapping[str, ArmStyle]) -> None:
    for name, look in looks.items():
        own = rows[rows["label"].astype(str) == name]
        # A line of one point would not be seen.
        alone = own.groupby("seed").size().max() == 1
        # One line a seed: an average over seeds would hide when each of them started to learn.
        sns.lineplot(
            data=own,
            x="step",
            y="value",
            units="seed",
            estimator=None,
            errorbar=None,
            color=look.colour,
            linestyle=look.dash,
            marker=look.marker if alone else None,
            linewidth=1.2,
            alpha=0.8,
            legend=False,
            ax=panel,
        )


def _finish_accuracy(
    panel: Axes, floors: Mapping[str, float] | None, pass_mark: float | None
) -> None:
    accuracy_axis(panel, PANELS["scored_accuracy"])
    label_margin(panel, draw_floors(panel, floors or {}) | draw_pass_mark(panel, pass_mark))
