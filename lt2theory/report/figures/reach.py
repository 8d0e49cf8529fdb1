"""Reach of window models: influence by distance, and what a probe at a distance can answer."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from lt2theory.report.figures.axes import (
    accuracy_axis,
    arm_legend,
    draw_interval_line,
    mark_vertical,
    new_figure,
    styles_for,
)
from lt2theory.report.figures.margins import draw_floors, label_margin
from lt2theory.report.frames import (
    numbers,
    require_columns,
    require_influence,
    require_one_row_each,
)
from lt2theory.report.style import MUTED, ArmStyle, styled

LAW_DASH = (0, (1, 1))


@styled
def influence_by_distance(
    frame: pd.DataFrame,
    *,
    reach: Mapping[str, int] | None = None,
    law: pd.DataFrame | None = None,
    quantity: str = "influence (norm of the Jacobian)",
    styles: Mapping[str, ArmStyle] | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Influence of a token against its distance, on a logarithmic ordinate.

    Args:
        frame: One row an arm and distance: `label`, `distance` (0 is the token itself) and
            `value`, never negative. Exact zeros stand on the lower edge, marked as such.
        reach: Tokens that each arm can see, itself included (theory W1); the vertical line stands
            behind the last of them, between distances `reach - 1` and `reach`.
        law: Predicted influence (W3) in the same columns and units, drawn as thick dotted lines.
        quantity: What `value` is, for the ordinate.
        styles: Looks of the arms.
        ax: Panel of another figure to draw into; None makes a figure.

    Returns:
        The figure.

    Raises:
        ValueError: An influence is negative or not finite, or all of them are zero.
    """
    require_columns(frame, ["label", "distance", "value"], "influence by distance")
    require_one_row_each(frame, ["label", "distance"], "influence by distance")
    values = numbers(frame, "value")
    require_influence(values)
    looks = styles_for(frame["label"], styles)
    figure, (axes,) = new_figure(height=3.6, ax=ax)
    axes.set_yscale("log")
    edge = float(values[values > 0].min()) / 5
    # Every arm's exact zeros stand on a row of their own, so that none hides another.
    rows = {name: edge / 2**row for row, name in enumerate(looks)}
    axes.set_ylim(min(rows.values()) / 2, float(values.max()) * 3)
    for name, look in looks.items():
        _draw_influence(axes, frame[frame["label"].astype(str) == name], look, name, rows[name])
        if law is not None:
            _draw_law(axes, law[law["label"].astype(str) == name], look, name)
    if not values.all():
        axes.text(
            1.012,
            float(np.sqrt(edge * min(rows.values()))),
            "exactly 0",
            transform=axes.get_yaxis_transform(),
            va="center",
            fontsize=8,
            color=MUTED,
        )
    _distance_axis(axes, frame)
    axes.set_ylabel(quantity)
    _mark_reach(axes, reach or {}, looks)
    law_key = Line2D([], [], color=MUTED, linestyle=LAW_DASH, linewidth=2.4, label="law W3")
    arm_legend(axes, looks, extra=[] if law is None else [law_key], ax=ax)
    return figure


@styled
def distance_probe(
    frame: pd.DataFrame,
    *,
    reach: Mapping[str, int] | None = None,
    floors: Mapping[str, float] | None = None,
    styles: Mapping[str, ArmStyle] | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Accuracy of the distance probe against the bit's distance, with the reach of every arm.

    Args:
        frame: One row an arm and distance: `label`, `distance`, `value`, and optionally `low` and
            `high`.
        reach: Tokens that each arm can see, itself included (W1); beyond it only the floor is
            possible.
        floors: Accuracy of each named shortcut.
        styles: Looks of the arms.
        ax: Panel of another figure to draw into; None makes a figure.

    Returns:
        The figure.
    """
    require_columns(frame, ["label", "distance", "value"], "distance probe")
    require_one_row_each(frame, ["label", "distance"], "distance probe")
    looks = styles_for(frame["label"], styles)
    figure, (axes,) = new_figure(ax=ax)
    accuracy_axis(axes)
    for name, look in looks.items():
        rows = frame[frame["label"].astype(str) == name]
        draw_interval_line(axes, rows, "distance", look, label=name)
    _distance_axis(axes, frame)
    _mark_reach(axes, reach or {}, looks)
    label_margin(axes, draw_floors(axes, floors or {}))
    arm_legend(axes, looks, ax=ax)
    return figure


def _draw_influence(axes: Axes, rows: pd.DataFrame, look: ArmStyle, name: str, edge: float) -> None:
    ordered = rows.sort_values("distance")
    distances, values = numbers(ordered, "distance"), numbers(ordered, "value")
    seen = values > 0
    axes.plot(
        distances[seen],
        values[seen],
        color=look.colour,
        linestyle=look.dash,
        marker=look.marker,
        markersize=4,
        label=name,
    )
    if not seen.all():
        axes.plot(
            distances[~seen],
            np.full(int((~seen).sum()), edge),
            color=look.colour,
            linestyle="",
            marker="x",
            markersize=4,
            label=f"{name} (exactly 0)",
        )


def _draw_law(axes: Axes, rows: pd.DataFrame, look: ArmStyle, name: str) -> None:
    ordered = rows[numbers(rows, "value") > 0].sort_values("distance")
    axes.plot(
        numbers(ordered, "distance"),
        numbers(ordered, "value"),
        color=look.colour,
        linestyle=LAW_DASH,
        linewidth=2.4,
        alpha=0.5,
        zorder=1,
        label=f"{name} (law W3)",
    )


def _distance_axis(axes: Axes, frame: pd.DataFrame) -> None:
    distances = numbers(frame, "distance")
    margin = max(0.5, 0.02 * float(np.ptp(distances)))
    axes.set_xlim(float(distances.min()) - margin, float(distances.max()) + margin)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("distance (tokens back)")


def _mark_reach(axes: Axes, reach: Mapping[str, int], looks: Mapping[str, ArmStyle]) -> None:
    """A line behind the last visible token of every arm."""
    shown = {f"reach {reach[name]}": name for name in looks if name in reach}
    places = {text: reach[name] - 0.5 for text, name in shown.items()}
    mark_vertical(axes, places, {text: looks[name].colour for text, name in shown.items()})
