"""Influence by distance and by loops, as a map."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from lt2theory.report.figures.axes import (
    new_figure,
    place_legend,
)
from lt2theory.report.frames import (
    numbers,
    require_columns,
    require_influence,
    require_one_row_each,
)
from lt2theory.report.style import COLOURS, INK, styled

DECADES = 12
"""Colours span at most so many powers of ten; what is weaker takes the last one."""

ZERO = "#ffffff"
SHARES = {0.5: "o", 0.99: "s"}
"""Shares of the influence whose distances are marked, and their markers."""


@styled
def influence_map(
    frame: pd.DataFrame,
    *,
    reach: pd.DataFrame | None = None,
    law: pd.DataFrame | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Influence on one position after every loop, by distance into the past.

    Args:
        frame: One row for each `loops_done` and `distance` (0 is the token itself): `value`, never
            negative, in any one unit. Exact zeros stay white.
        reach: `loops_done` and `reach`, the tokens that can be seen, itself included (theory W1);
            the line stands behind the last of them.
        law: Prediction of W3 in the columns of `frame`; the distances within which half and 99 % of
            it lie are marked in every row, hollow, beside the measured ones, filled.
        ax: Panel of another figure to draw into; None makes a figure.

    Returns:
        The figure.

    Raises:
        ValueError: If an influence is negative or not finite, or all of them are zero.
    """
    require_columns(frame, ["loops_done", "distance", "value"], "influence map")
    require_one_row_each(frame, ["loops_done", "distance"], "influence map")
    values = numbers(frame, "value")
    require_influence(values)
    grid = frame.pivot_table(index="loops_done", columns="distance", values="value", fill_value=0.0)
    loops = [int(count) for count in grid.index]
    figure, (axes,) = new_figure(height=1.7 + 0.5 * len(loops), ax=ax)
    top = float(values.max())
    floor = max(float(values[values > 0].min()), top * 10.0**-DECADES)
    shown = grid.to_numpy(dtype=np.float64)
    colours = np.ma.masked_array(np.maximum(shown, floor), mask=shown == 0)
    distances = np.asarray(grid.columns, dtype=np.float64)
    edges = np.append(distances, distances[-1] + 1) - 0.5
    mesh = axes.pcolormesh(
        edges,
        np.arange(len(loops) + 1) - 0.5,
        colours,
        norm=LogNorm(floor, top) if top > floor else None,
        cmap="cividis",
        rasterized=True,
    )
    axes.set_facecolor(ZERO)
    axes.grid(visible=False)
    figure.colorbar(mesh, ax=axes, label="influence (share)", pad=0.02)
    keys = _mark_quantiles(axes, frame, loops, hollow=False, name="measured")
    if law is not None:
        keys += _mark_quantiles(axes, law, loops, hollow=True, name="law W3")
    if reach is not None:
        keys += _mark_reach(axes, reach, loops)
    axes.set_yticks(range(len(loops)), [str(count) for count in loops])
    axes.set_ylim(-0.5, len(loops) - 0.5)
    axes.set_xlim(-0.5, float(edges[-1]))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_ylabel("loops done")
    axes.set_xlabel("distance into the past (tokens); white is exactly 0")
    place_legend(axes, keys, columns=min(len(keys), 3), ax=ax)
    return figure


def _mark_quantiles(
    axes: Axes, frame: pd.DataFrame, loops: Sequence[int], *, hollow: bool, name: str
) -> list[Line2D]:
    """Mark the distances within which half and 99 % of each row's influence lie."""
    keys: list[Line2D] = []
    colour = COLOURS[1]
    for share, marker in SHARES.items():
        points = []
        for place, count in enumerate(loops):
            row = frame[numbers(frame, "loops_done") == count].sort_values("distance")
            if row.empty:
                continue
            total = np.cumsum(numbers(row, "value"))
            within = int((total < share * total[-1]).sum())
            points.append((float(numbers(row, "distance")[within]), place))
        x, y = zip(*points, strict=True)
        keys += axes.plot(
            x,
            y,
            color=colour,
            marker=marker,
            markerfacecolor="none" if hollow else colour,
            markersize=9 if hollow else 5,
            linestyle="",
            clip_on=False,
            label=f"{name}: {100 * share:g} % within",
        )
    return keys


def _mark_reach(axes: Axes, reach: pd.DataFrame, loops: Sequence[int]) -> list[Line2D]:
    """Draw the edge behind the last token that can be seen, row by row."""
    require_columns(reach, ["loops_done", "reach"], "reach of the influence map")
    known = dict(zip(numbers(reach, "loops_done"), numbers(reach, "reach"), strict=True))
    x = [known[count] - 0.5 for count in loops for _ in range(2)]
    y = [place + side for place in range(len(loops)) for side in (-0.5, 0.5)]
    return axes.plot(x, y, color=INK, linewidth=1.8, label="reach W1")
