"""Pieces that several figures share: intervals, legends, marks and axes of lengths."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, NullLocator

from lt2theory.report.frames import numbers
from lt2theory.report.style import MUTED, WIDTH, ArmStyle, arm_styles, styled

# Mean width of a character of a small label, in inches.
CHARACTER_WIDTH = 0.068


Panels = Axes | Sequence[Axes]
"""Where a figure function may draw instead of making a figure: one panel, or one for each."""


@styled
def new_figure(
    panels: int = 1, *, height: float = 3.3, width: float = WIDTH, ax: Panels | None = None
) -> tuple[Figure, list[Axes]]:
    """A figure with panels side by side, unknown to pyplot, in the style of all figures.

    Args:
        panels: How many.
        height: In inches.
        width: In inches.
        ax: Panels of another figure to draw into, from left to right; None makes a figure.

    Returns:
        The figure and its axes from left to right.

    Raises:
        ValueError: `ax` has not as many panels as are drawn.
    """
    if ax is None:
        figure = Figure(figsize=(width, height))
        return figure, list(figure.subplots(1, panels, squeeze=False)[0])
    given = [ax] if isinstance(ax, Axes) else list(ax)
    if len(given) != panels:
        raise ValueError(f"ax: {len(given)} panels are not allowed (must be {panels})")
    root = given[0].get_figure(root=True)
    assert root is not None, "axes belong to a figure"
    return root, given


def place_legend(
    axes: Axes, handles: Sequence[Line2D], *, columns: int, ax: Panels | None = None
) -> None:
    """A legend above all panels, or inside the panel where the figure is the caller's.

    Args:
        axes: The first panel.
        handles: Entries, with their labels.
        columns: Columns above the panels.
        ax: What the caller gave.
    """
    if ax is not None:
        # An artist of its own: a later `axes.legend` must not take its place.
        labels = [str(handle.get_label()) for handle in handles]
        axes.add_artist(Legend(axes, list(handles), labels, loc="best", fontsize=8))
        return
    figure = axes.get_figure(root=True)
    assert figure is not None, "axes of `new_figure` belong to a figure"
    figure.legend(handles=handles, loc="outside upper left", ncols=columns, borderaxespad=0.2)


def styles_for(
    labels: Iterable[object], styles: Mapping[str, ArmStyle] | None
) -> dict[str, ArmStyle]:
    """The looks of the arms of one figure.

    Args:
        labels: Names of arms in the figure's table.
        styles: Looks shared by a whole report, or None to make some.

    Returns:
        A style for each distinct label, in order of first occurrence.

    Raises:
        ValueError: `styles` lacks an arm of the table.
    """
    made = arm_styles(labels)
    if styles is None:
        return made
    missing = [name for name in made if name not in styles]
    if missing:
        raise ValueError(f"styles lacks arm {missing[0]!r}, it has: {', '.join(styles)}")
    return {name: styles[name] for name in made}


def arm_legend(
    axes: Axes,
    styles: Mapping[str, ArmStyle],
    *,
    markers: bool = True,
    extra: Sequence[Line2D] = (),
    ax: Panels | None = None,
) -> None:
    """One legend for the figure, above its panels, in as many columns as fit.

    Args:
        axes: The first panel.
        styles: Arms to list.
        markers: Whether the arms are drawn with markers.
        extra: Further entries, with their labels.
        ax: What the caller gave; the legend is then inside the panel.
    """
    handles = [
        Line2D(
            [],
            [],
            color=look.colour,
            linestyle=look.dash,
            label=name,
            marker=look.marker if markers else "",
        )
        for name, look in styles.items()
    ]
    entries = [*handles, *extra]
    longest = max(len(str(entry.get_label())) for entry in entries)
    figure = axes.get_figure(root=True)
    assert figure is not None, "axes of `new_figure` belong to a figure"
    columns = max(1, min(len(entries), int(figure.get_figwidth() * 12 / (longest + 6))))
    place_legend(axes, entries, columns=columns, ax=ax)


def draw_interval_line(
    axes: Axes, frame: pd.DataFrame, x: str, look: ArmStyle, *, label: str
) -> None:
    """A line through `value` with error bars from `low` to `high` where they are known.

    Args:
        axes: Where to draw.
        frame: One row a point: column `x`, `value`, and optionally `low` and `high`.
        x: Name of the abscissa's column.
        look: The arm's style.
        label: The arm's name, carried by the line.
    """
    ordered = frame.sort_values(x)
    places, values = numbers(ordered, x), numbers(ordered, "value")
    axes.plot(
        places, values, color=look.colour, linestyle=look.dash, marker=look.marker, label=label
    )
    if {"low", "high"} <= set(ordered.columns):
        low, high = numbers(ordered, "low"), numbers(ordered, "high")
        known = np.isfinite(low) & np.isfinite(high)
        axes.vlines(places[known], low[known], high[known], color=look.colour, linewidth=1.2)


def accuracy_axis(axes: Axes, label: str = "accuracy") -> None:
    """An ordinate from 0 to 1 with a little air.

    Args:
        axes: The panel.
        label: What is measured.
    """
    axes.set_ylim(-0.03, 1.04)
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_ylabel(label)


def length_axis(
    axes: Axes, lengths: Sequence[float] | Sequence[int] | np.ndarray, label: str
) -> None:
    """A base-2 logarithmic abscissa with a tick at every length that was measured.

    Args:
        axes: The panel.
        lengths: Lengths, all positive.
        label: What they are.

    Raises:
        ValueError: A length is not positive.
    """
    distinct = np.unique(np.asarray(lengths, dtype=np.float64))
    if distinct[0] <= 0:
        raise ValueError(f"{label} is {distinct[0]:g}, allowed is above 0")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(list(distinct)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(list(distinct), [f"{length:g}" for length in distinct])
    axes.set_xlim(distinct[0] / 1.15, distinct[-1] * 1.15)
    axes.set_xlabel(label)


def mark_vertical(
    axes: Axes,
    marks: Mapping[str, float] | Mapping[str, int],
    colours: Mapping[str, str] | None = None,
) -> None:
    """Dotted vertical lines, named above the panel, where no data can lie beneath the text.

    Call it after the limits of the abscissa are set.

    Args:
        axes: The panel.
        marks: Text and abscissa of each line, in data units.
        colours: Colour of a line and its text; grey where there is none.
    """
    to_axes = axes.transData + axes.transAxes.inverted()
    figure = axes.get_figure(root=True)
    assert figure is not None, "axes of `new_figure` belong to a figure"
    panel_width = 0.82 * figure.get_figwidth() / len(figure.axes)
    rows: list[float] = []
    for text in sorted(marks, key=lambda name: marks[name]):
        place, colour = marks[text], (colours or {}).get(text, MUTED)
        axes.axvline(place, color=colour, linewidth=1.1, linestyle=(0, (1, 2)), label=text)
        middle = float(to_axes.transform((place, axes.get_ylim()[0]))[0])
        half = CHARACTER_WIDTH * (len(text) + 1) / panel_width / 2
        side = "left" if middle < half else "right" if middle > 1 - half else "center"
        start = middle - {"left": 0.0, "center": half, "right": 2 * half}[side]
        # The lowest row whose last text ends before this one begins.
        row = next((row for row, end in enumerate(rows) if end <= start), len(rows))
        rows[row : row + 1] = [start + 2 * half]
        axes.annotate(
            text,
            (place, 1.0),
            xycoords=axes.get_xaxis_transform(),
            xytext=(0, 3 + 11 * row),
            textcoords="offset points",
            va="bottom",
            ha=side,
            fontsize=8,
            color=colour,
        )
