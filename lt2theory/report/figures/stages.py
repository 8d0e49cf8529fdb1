"""Stages of a curriculum that every seed reached, by family and loops."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lt2theory.report.figures.axes import arm_legend, new_figure
from lt2theory.report.frames import in_order, require_columns
from lt2theory.report.style import arm_styles, styled

_SPREAD = 0.6
"""Width that the marks of one family take up of its place on the abscissa."""


@styled
def stages_by_family(
    frame: pd.DataFrame, *, stages: tuple[int, ...], counts: str, ax: Axes | None = None
) -> Figure:
    """One mark a seed at the largest stage that it solved, families side by side.

    Args:
        frame: One row a run: `family`, `arm` (what distinguishes runs of one family), `seed` and
            `reached` (0 for none).
        stages: The curriculum, evenly spaced on the ordinate.
        counts: What a stage counts.
        ax: Panel of another figure to draw into; None makes a figure.

    Returns:
        The figure.
    """
    require_columns(frame, ["family", "arm", "seed", "reached"], "stages by family")
    looks = arm_styles(frame["arm"])
    families = in_order(frame["family"])
    figure, (axes,) = new_figure(height=3.4, ax=ax)
    heights = {stage: place for place, stage in enumerate((0, *stages))}
    for place, family in enumerate(families):
        rows = frame[frame["family"].astype(str) == family]
        offsets = np.linspace(-_SPREAD / 2, _SPREAD / 2, len(rows)) if len(rows) > 1 else [0.0]
        for offset, row in zip(offsets, rows.to_dict("records"), strict=True):
            look = looks[str(row["arm"])]
            axes.plot(
                [place + offset],
                [heights[int(row["reached"])]],
                color=look.colour,
                marker=look.marker,
                linestyle="none",
            )
    axes.set_xticks(range(len(families)), families)
    axes.set_xlim(-0.5, len(families) - 0.5)
    axes.set_yticks(list(heights.values()), ["none", *map(str, stages)])
    axes.set_ylim(-0.5, len(stages) + 0.5)
    axes.set_ylabel(f"largest stage solved ({counts})")
    arm_legend(axes, looks, ax=ax)
    return figure
