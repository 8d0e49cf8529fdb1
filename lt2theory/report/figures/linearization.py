"""Linearizations: accuracy by length, recovery stage by stage, divergence by budget."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

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
from lt2theory.report.figures.ordinates import log_ordinate
from lt2theory.report.frames import numbers, require_columns
from lt2theory.report.style import COLOURS, ArmStyle, styled


@styled
def found_by_length(
    frame: pd.DataFrame,
    *,
    what: str = "needles found",
    counts: str = "tokens",
    styles: Mapping[str, ArmStyle] | None = None,
    ax: Panels | None = None,
) -> Figure:
    """Share of answers by the length of their context, one line an arm.

    Args:
        frame: One row a point: `label`, `length`, `value`, and `low` and `high` where known.
        what: What was found.
        counts: What lengths count.
        styles: Looks of the arms; see `arm_styles`.
        ax: A panel of another figure to draw into; None makes a figure.

    Returns:
        The figure.

    Raises:
        ValueError: A column is missing.
    """
    require_columns(frame, ["label", "length", "value"], "answers by length")
    looks = styles_for(frame["label"], styles)
    figure, (panel,) = new_figure(1, ax=ax)
    for name, look in looks.items():
        own = frame[frame["label"].astype(str) == name]
        draw_interval_line(panel, own, "length", look, label=name)
    length_axis(panel, numbers(frame, "length"), counts)
    accuracy_axis(panel, what)
    arm_legend(panel, looks, ax=ax)
    return figure


@styled
def divergence_by_budget(
    frame: pd.DataFrame,
    *,
    styles: Mapping[str, ArmStyle] | None = None,
    ax: Panels | None = None,
) -> Figure:
    """Divergence from the teacher by tokens, both logarithmic, one panel a size.

    Args:
        frame: One row a point: `label`, `size`, `budget`, `value`, and `low` and `high`.
        styles: Looks of the arms; see `arm_styles`.
        ax: Panels of another figure to draw into, one a size; None makes a figure.

    Returns:
        The figure.

    Raises:
        ValueError: A column is missing.
    """
    require_columns(frame, ["label", "size", "budget", "value"], "divergence by budget")
    looks = styles_for(frame["label"], styles)
    sizes = list(dict.fromkeys(frame["size"].astype(str)))
    figure, panels = new_figure(len(sizes), ax=ax)
    values = numbers(frame, "value")
    frame = frame.assign(millions=numbers(frame, "budget") / 1e6)
    for panel, size in zip(panels, sizes, strict=True):
        rows = frame[frame["size"].astype(str) == size]
        for name, look in looks.items():
            own = rows[rows["label"].astype(str) == name]
            if len(own):
                draw_interval_line(panel, own, "millions", look, label=name)
        length_axis(panel, numbers(rows, "millions"), "million tokens")
        log_ordinate(panel, values)
        panel.set_ylim(float(values.min()) / 1.2, float(values.max()) * 1.2)
        panel.set_title(f"teacher {size}")
    panels[0].set_ylabel("divergence (nats a token)")
    arm_legend(panels[0], looks, ax=ax)
    return figure


@styled
def recovery_by_stage(frame: pd.DataFrame, *, ax: Panels | None = None) -> Figure:
    """Divergence from the teacher, and losses of both, before training and after each stage.

    Args:
        frame: One row a measurement: `stage` (its name), `step` (over all stages), `kl`, `loss` and
            `teacher_loss`.
        ax: Two panels of another figure to draw into; None makes a figure.

    Returns:
        The figure.

    Raises:
        ValueError: A column is missing.
    """
    columns = ["stage", "step", "kl", "loss", "teacher_loss"]
    require_columns(frame, columns, "recovery by stage")
    figure, panels = new_figure(2, ax=ax)
    x = np.arange(len(frame))
    names = [str(name) for name in frame["stage"]]
    panels[0].plot(x, numbers(frame, "kl"), color=COLOURS[0], marker="o", label="divergence")
    panels[0].set_ylabel("divergence (nats a token)")
    panels[1].plot(x, numbers(frame, "loss"), color=COLOURS[0], marker="o", label="student")
    teacher = numbers(frame, "teacher_loss")
    panels[1].plot(x, teacher, color=COLOURS[1], linestyle="--", label="teacher")
    panels[1].set_ylabel("loss (nats a token)")
    panels[1].legend(loc="best")
    log_ordinate(panels[0], numbers(frame, "kl"))
    log_ordinate(panels[1], np.concatenate([numbers(frame, "loss"), teacher]))
    for panel in panels:
        panel.set_xticks(list(x), names, rotation=20, ha="right")
        panel.set_xlabel("after the stage")
    return figure


@styled
def stage_courses(frame: pd.DataFrame, *, ax: Panels | None = None) -> Figure:
    """What each stage minimises, by step over all stages; a panel a stage, since scales differ.

    Args:
        frame: One row a record: `stage`, `step`, `value`.
        ax: Panels of another figure to draw into, one a stage; None makes a figure.

    Returns:
        The figure.

    Raises:
        ValueError: A column is missing, or there is no row.
    """
    require_columns(frame, ["stage", "step", "value"], "courses of stages")
    names = list(dict.fromkeys(frame["stage"].astype(str)))
    figure, panels = new_figure(len(names), height=2.8, ax=ax)
    for number, (panel, name) in enumerate(zip(panels, names, strict=True)):
        own = frame[frame["stage"].astype(str) == name].sort_values("step")
        colour = COLOURS[number % len(COLOURS)]
        # A line of one point would not be seen.
        marker = "o" if len(own) == 1 else ""
        x, y = numbers(own, "step"), numbers(own, "value")
        panel.plot(x, y, color=colour, marker=marker, label=name)
        panel.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        panel.set_xlim(panel.get_xlim() if len(own) > 1 else (x[0] - 1, x[0] + 1))
        panel.set_xlabel("step")
        mark_vertical(panel, {name: float(x[0])})
    panels[0].set_ylabel("what is minimised")
    return figure
