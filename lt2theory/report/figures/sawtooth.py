"""What looping does along the depth: size of the residual stream and the first token's share."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lt2theory.report.figures.axes import (
    Panels,
    new_figure,
)
from lt2theory.report.frames import numbers, require_columns
from lt2theory.report.style import COLOURS, MUTED, styled

PLACE = ["loop", "layer"]
MOST_TICKS = 24


@styled
def saw_tooth(
    rms: pd.DataFrame, mass: pd.DataFrame | None = None, *, ax: Panels | None = None
) -> Figure:
    """Residual RMS and first-token mass after every block, loop by loop.

    Args:
        rms: One row a token: `loop`, `layer`, `token`, `rms`. The line is the median of the tokens
            behind the first, the band its middle nine tenths; the first token has its own line.
        mass: One row a head: `loop`, `layer`, `head`, `mass` (share of the head's weights on the
            first token), `uniform` (if all visible tokens had equal weight), and optionally
            `passed` (what an output gate lets through; NaN where there is none). None leaves the
            panel out.
        ax: Panels of another figure to draw into, as many as are drawn; None makes a figure.

    Returns:
        The figure.
    """
    require_columns(rms, [*PLACE, "token", "rms"], "saw-tooth of the residual stream")
    places = _places(rms)
    panels = 1 if mass is None else 2
    figure, axes = new_figure(panels, height=3.4, ax=ax)
    _draw_rms(axes[0], rms, places)
    if mass is not None:
        require_columns(mass, [*PLACE, "head", "mass", "uniform"], "saw-tooth of the first token")
        _draw_mass(axes[1], mass, places)
    for panel in axes:
        depth_axis(panel, places)
        handles, labels = panel.get_legend_handles_labels()
        figure_legend = dict(zip(labels, handles, strict=True))
        panel.legend(
            handles=list(figure_legend.values()),
            labels=list(figure_legend),
            loc="lower left",
            bbox_to_anchor=(0.0, 1.0),
            ncols=2,
            columnspacing=1.0,
            handlelength=1.4,
        )
    return figure


def _places(frame: pd.DataFrame) -> list[tuple[int, int]]:
    return sorted({(int(a), int(b)) for a, b in frame[PLACE].itertuples(index=False)})


def _place_numbers(frame: pd.DataFrame, places: list[tuple[int, int]]) -> np.ndarray:
    """Return where each row's block stands along the depth."""
    rows = frame[PLACE].itertuples(index=False)
    return np.array([places.index((int(a), int(b))) for a, b in rows])


def _draw_rms(axes: Axes, rms: pd.DataFrame, places: list[tuple[int, int]]) -> None:
    levels = (0.05, 0.5, 0.95)
    later, first = [], []
    for loop, layer in places:
        cell = rms[(rms["loop"] == loop) & (rms["layer"] == layer)]
        values, is_first = numbers(cell, "rms"), numbers(cell, "token") == 0
        rest = values[~is_first]
        later.append(np.quantile(rest, levels) if len(rest) else [np.nan] * 3)
        first.append(np.median(values[is_first]))
    low, middle, high = np.transpose(later)
    x = np.arange(len(places))
    axes.fill_between(x, low, high, color=COLOURS[0], alpha=0.18, linewidth=0)
    axes.plot(x, middle, color=COLOURS[0], marker="o", label="other tokens")
    axes.plot(x, first, color=COLOURS[1], marker="s", label="first token")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("RMS of the residual stream")


def _draw_mass(axes: Axes, mass: pd.DataFrame, places: list[tuple[int, int]]) -> None:
    means = mass.groupby(PLACE, sort=True).mean(numeric_only=True).reset_index()
    x = _place_numbers(means, places)
    for column, colour, marker, name in (
        ("mass", COLOURS[0], "o", "mass on the first token"),
        ("passed", COLOURS[1], "s", "behind the output gate"),
    ):
        if column not in mass.columns or not np.isfinite(numbers(mass, column)).any():
            continue
        axes.plot(x, numbers(means, column), color=colour, marker=marker, label=name)
        rows = mass[mass[column].notna()]
        axes.plot(
            _place_numbers(rows, places) + 0.12,
            numbers(rows, column),
            color=colour,
            marker=".",
            markersize=3,
            linestyle="",
            alpha=0.5,
            label="_heads",
        )
    axes.plot(
        x, numbers(means, "uniform"), color=MUTED, linestyle=(0, (4, 3)), label="if all were equal"
    )
    axes.set_ylim(-0.03, 1.04)
    axes.set_ylabel("share of the weights")


def depth_axis(axes: Axes, places: list[tuple[int, int]]) -> None:
    """Blocks in the order in which they run, a line between two loops.

    Args:
        axes: The panel.
        places: Loop and layer of every block, counted from 0, in that order.
    """
    step = -(-len(places) // MOST_TICKS)
    shown = range(0, len(places), step)
    several = len({layer for _, layer in places}) > 1
    names = [f"{loop + 1}.{layer + 1}" if several else f"{loop + 1}" for loop, layer in places]
    axes.set_xticks(list(shown), [names[i] for i in shown], rotation=90 if len(shown) > 10 else 0)
    axes.set_xlim(-0.5, len(places) - 0.5)
    axes.grid(visible=False, axis="x")
    starts = [i for i in range(1, len(places)) if places[i][0] != places[i - 1][0]]
    for start in starts:
        axes.axvline(start - 0.5, color=MUTED, linewidth=0.8, linestyle=(0, (1, 2)))
    axes.set_xlabel("loop.layer" if several else "loop")
