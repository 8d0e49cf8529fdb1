"""Accuracy on every rung of a curriculum, beside every floor that the task has."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lt2theory.report.figures.axes import (
    accuracy_axis,
    arm_legend,
    draw_interval_line,
    length_axis,
    mark_vertical,
    new_figure,
    styles_for,
)
from lt2theory.report.figures.margins import draw_floor_curves, draw_pass_mark, label_margin
from lt2theory.report.frames import numbers, require_columns, require_one_row_each
from lt2theory.report.style import ArmStyle, styled


@styled
def accuracy_by_stage(
    frame: pd.DataFrame,
    *,
    floors: pd.DataFrame,
    stage_label: str = "stage",
    pass_mark: float | None = None,
    training_stage: float | int | None = None,
    styles: Mapping[str, ArmStyle] | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Scored accuracy at every stage, with all floors (for state-based recall those of theory H1).

    Args:
        frame: One row an arm and stage: `label`, `stage`, `value`, and optionally `low` and
            `high`. For state-based recall the label should name the supervision.
        floors: One row a floor and stage: `stage`, `floor`, `value`.
        stage_label: What a stage counts, for the abscissa.
        pass_mark: Accuracy that promotes to the next stage, or None.
        training_stage: Largest stage of the training, marked by a vertical line.
        styles: Looks of the arms.
        ax: Panel of another figure to draw into; None makes a figure.

    Returns:
        The figure.
    """
    require_columns(frame, ["label", "stage", "value"], "accuracy by stage")
    require_one_row_each(frame, ["label", "stage"], "accuracy by stage")
    require_columns(floors, ["stage", "floor", "value"], "floors by stage")
    require_one_row_each(floors, ["stage", "floor"], "floors by stage")
    looks = styles_for(frame["label"], styles)
    figure, (axes,) = new_figure(height=3.8, ax=ax)
    axes.set_ylim(0.4, 1.03)
    axes.set_ylabel("scored accuracy (test split)")
    ends = [numbers(frame, name) for name in ("value", "low") if name in frame.columns]
    if np.nanmin(np.concatenate([*ends, numbers(floors, "value")])) < 0.4:
        accuracy_axis(axes, axes.get_ylabel())
    stages = [*numbers(frame, "stage"), *numbers(floors, "stage")]
    length_axis(axes, stages, stage_label)
    marks = draw_floor_curves(axes, floors, "stage") | draw_pass_mark(axes, pass_mark)
    label_margin(axes, marks)
    if training_stage is not None:
        mark_vertical(axes, {f"largest in training: {training_stage:g}": float(training_stage)})
    for name, look in looks.items():
        rows = frame[frame["label"].astype(str) == name]
        draw_interval_line(axes, rows, "stage", look, label=name)
    arm_legend(axes, looks, ax=ax)
    return figure
