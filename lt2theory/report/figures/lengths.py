"""Length generalisation: accuracy beyond the training length, and how far each answer is right."""

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lt2theory.report.figures.axes import (
    Panels,
    accuracy_axis,
    arm_legend,
    draw_interval_line,
    length_axis,
    mark_vertical,
    new_figure,
    styles_for,
)
from lt2theory.report.figures.margins import draw_floor_curves, draw_floors, label_margin
from lt2theory.report.frames import in_order, numbers, require_columns, require_one_row_each
from lt2theory.report.style import ArmStyle, styled


@styled
def length_generalisation(
    frame: pd.DataFrame,
    *,
    floors: Mapping[str, float] | pd.DataFrame | None = None,
    training_length: float | int | None = None,
    styles: Mapping[str, ArmStyle] | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Accuracy against length, one line an arm, with intervals and floors.

    Args:
        frame: One row an arm and length: `label`, `length`, `value`, and optionally `low` and
            `high` (NaN where there is no interval).
        floors: Accuracy of each named shortcut, or a table `length`, `floor`, `value` where it
            depends on the length.
        training_length: Longest length seen in training, marked by a vertical line.
        styles: Looks of the arms.
        ax: Panel of another figure to draw into; None makes a figure.

    Returns:
        The figure.
    """
    require_columns(frame, ["label", "length", "value"], "length generalisation")
    require_one_row_each(frame, ["label", "length"], "length generalisation")
    looks = styles_for(frame["label"], styles)
    figure, (axes,) = new_figure(ax=ax)
    accuracy_axis(axes, "accuracy (test split)")
    length_axis(axes, numbers(frame, "length"), "sequence length (tokens)")
    for name, look in looks.items():
        rows = frame[frame["label"].astype(str) == name]
        draw_interval_line(axes, rows, "length", look, label=name)
    if training_length is not None:
        mark_vertical(axes, {f"longest in training: {training_length:g}": float(training_length)})
    if isinstance(floors, pd.DataFrame):
        require_columns(floors, ["length", "floor", "value"], "floors by length")
        label_margin(axes, draw_floor_curves(axes, floors, "length"))
    else:
        label_margin(axes, draw_floors(axes, floors or {}))
    arm_legend(axes, looks, ax=ax)
    return figure


@styled
def exact_prefix(
    frame: pd.DataFrame,
    *,
    training_length: float | int | None = None,
    styles: Mapping[str, ArmStyle] | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Share of sequences right at every position so far, one line a seed.

    Args:
        frame: One row a seed and position: `label`, `seed`, `position` (1 is the first token) and
            `value`, which can only fall along a sequence.
        training_length: Longest length seen in training, marked by a vertical line.
        styles: Looks of the arms.
        ax: Panel of another figure to draw into; None makes a figure.

    Returns:
        The figure.
    """
    require_columns(frame, ["label", "seed", "position", "value"], "exact prefix")
    require_one_row_each(frame, ["label", "seed", "position"], "exact prefix")
    looks = styles_for(frame["label"], styles)
    figure, (axes,) = new_figure(ax=ax)
    _draw_prefixes(axes, frame, looks)
    if training_length is not None:
        mark_vertical(axes, {f"longest in training: {training_length:g}": float(training_length)})
    arm_legend(axes, looks, markers=False, ax=ax)
    return figure


@styled
def exact_prefix_panels(
    frame: pd.DataFrame,
    *,
    training_length: float | int,
    styles: Mapping[str, ArmStyle] | None = None,
    ax: Panels | None = None,
) -> Figure:
    """Share of sequences right at every position so far, a panel a group, one line a seed.

    Args:
        frame: As that of `exact_prefix`, with `group`, the heading of its panel. The legend keeps
            the order that the arms have in every group.
        training_length: Longest length seen in training, a dotted line in every panel.
        styles: Looks of the arms.
        ax: Panels of another figure to draw into, one a group; None makes a figure.

    Returns:
        The figure.
    """
    columns = ["group", "label", "seed", "position", "value"]
    require_columns(frame, columns, "exact prefix")
    require_one_row_each(frame, columns[:-1], "exact prefix")
    groups = in_order(frame["group"])
    parts = [frame[frame["group"].astype(str) == group] for group in groups]
    looks = styles_for(_merged_order(in_order(part["label"]) for part in parts), styles)
    figure, panels = new_figure(len(groups), ax=ax)
    for panel, group, part in zip(panels, groups, parts, strict=True):
        _draw_prefixes(panel, part, looks)
        mark_vertical(panel, {"": float(training_length)})
        panel.set_title(group)
        if ax is None:
            panel.label_outer()
    arm_legend(panels[0], looks, markers=False, ax=ax)
    return figure


def _merged_order(orders: Iterable[Sequence[str]]) -> list[str]:
    """All names, one that an earlier list lacks before what follows it in its own."""
    merged: list[str] = []
    for order in orders:
        place = len(merged)
        for name in reversed(order):
            if name in merged:
                place = merged.index(name)
            else:
                merged.insert(place, name)
    return merged


def _draw_prefixes(axes: Axes, frame: pd.DataFrame, looks: Mapping[str, ArmStyle]) -> None:
    accuracy_axis(axes, "share of sequences exact so far")
    for name, look in looks.items():
        rows = frame[frame["label"].astype(str) == name]
        if rows.empty:
            continue
        sns.lineplot(
            data=rows,
            x="position",
            y="value",
            units="seed",
            estimator=None,
            errorbar=None,
            color=look.colour,
            linestyle=look.dash,
            marker=".",
            markersize=4,
            markeredgewidth=0,
            linewidth=1.2,
            alpha=0.8,
            legend=False,
            ax=axes,
        )
    places = numbers(frame, "position")
    axes.set_xlim(float(places.min()), float(places.max()))
    axes.set_xlabel("position (tokens)")
    axes.set_ylabel("share of sequences exact so far")
