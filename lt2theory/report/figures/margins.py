"""Horizontal lines that are named in a panel's right margin: floors and pass marks."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes

from lt2theory.report.frames import numbers
from lt2theory.report.style import INK, MUTED

# Room that one line of a margin label needs, as a share of a panel's height.
LABEL_GAP = 0.062
FLOOR_DASH = (0, (4, 3))


def draw_floors(axes: Axes, floors: Mapping[str, float]) -> dict[str, float]:
    """A dashed line for every constant floor; equal floors share one.

    Args:
        axes: Where to draw.
        floors: Name and accuracy of each shortcut.

    Returns:
        Text and height of each line, for `label_margin`.
    """
    merged: dict[float, list[str]] = {}
    for name, value in floors.items():
        # Formulae of one floor may differ in the last digits.
        same = next((known for known in merged if abs(known - value) < 1e-6), float(value))
        merged.setdefault(same, []).append(name)
    for value, names in merged.items():
        label = f"floor: {', '.join(names)}"
        axes.axhline(value, color=MUTED, linewidth=0.9, linestyle=FLOOR_DASH, zorder=1, label=label)
    return {f"{', '.join(names)} {value:.3g}": value for value, names in merged.items()}


def draw_floor_curves(axes: Axes, floors: pd.DataFrame, x: str) -> dict[str, float]:
    """A dashed line for every floor that changes along the abscissa; equal floors share one.

    Args:
        axes: Where to draw.
        floors: One row a point: column `x`, `floor` (name) and `value`.
        x: Name of the abscissa's column.

    Returns:
        Text and height of each line's right end, for `label_margin`.
    """
    merged: dict[tuple[tuple[float, float], ...], list[str]] = {}
    for name, rows in floors.groupby("floor", sort=False):
        ordered = rows.sort_values(x)
        points = zip(numbers(ordered, x), numbers(ordered, "value").round(6), strict=True)
        merged.setdefault(
            tuple((float(place), float(value)) for place, value in points), []
        ).append(str(name))
    ends: dict[str, float] = {}
    for curve, names in merged.items():
        places, values = zip(*curve, strict=True)
        text = ", ".join(names)
        axes.plot(
            places,
            values,
            color=MUTED,
            linewidth=0.9,
            linestyle=FLOOR_DASH,
            zorder=1,
            label=f"floor: {text}",
        )
        ends[f"{text} {values[-1]:.3g}"] = values[-1]
    return ends


def draw_pass_mark(axes: Axes, pass_mark: float | None) -> dict[str, float]:
    """A thin solid line at the accuracy that promotes.

    Args:
        axes: Where to draw.
        pass_mark: The accuracy, or None for no line.

    Returns:
        Text and height of the line, for `label_margin`.
    """
    if pass_mark is None:
        return {}
    axes.axhline(pass_mark, color=INK, linewidth=0.8, zorder=1, label="pass mark")
    return {f"pass mark {pass_mark:g}": pass_mark}


def label_margin(axes: Axes, marks: Mapping[str, float], *, colour: str = MUTED) -> None:
    """Names in the right margin at given heights, moved apart where they would overlap.

    Call it after the limits of the ordinate are set.

    Args:
        axes: Where to write.
        marks: Text and its height in data units.
        colour: Of the text.
    """
    if not marks:
        return
    ordered = sorted(marks, key=lambda name: marks[name])
    to_axes = axes.transData + axes.transAxes.inverted()
    wanted = [float(to_axes.transform((axes.get_xlim()[0], marks[name]))[1]) for name in ordered]
    for name, height in zip(ordered, spread(wanted, LABEL_GAP), strict=True):
        axes.text(
            1.012,
            height,
            name,
            transform=axes.transAxes,
            va="center",
            ha="left",
            fontsize=8,
            color=colour,
        )


def spread(wanted: Sequence[float], gap: float) -> list[float]:
    """Heights as near as possible to those wanted, but at least `gap` apart.

    Args:
        wanted: Ascending heights.
        gap: Least distance between neighbours.

    Returns:
        Ascending heights: each run of crowded labels is centred on the mean of its wishes
        (isotonic regression by pooling, Barlow et al. 1972).
    """
    pools: list[tuple[float, int]] = []
    for index, height in enumerate(wanted):
        pools.append((height - index * gap, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (late, late_count), (early, early_count) = pools.pop(), pools.pop()
            count = late_count + early_count
            pools.append(((late * late_count + early * early_count) / count, count))
    flat = [height for height, count in pools for _ in range(count)]
    return [height + index * gap for index, height in enumerate(flat)]
