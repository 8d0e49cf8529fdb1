"""Language models: quality against the speed of decoding, and numbers by loop."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from lt2theory.report.figures.axes import (
    Panels,
    arm_legend,
    draw_interval_line,
    new_figure,
    styles_for,
)
from lt2theory.report.frames import numbers, require_columns, require_one_row_each
from lt2theory.report.style import MUTED, ArmStyle, styled


@styled
def quality_by_speed(
    frame: pd.DataFrame,
    *,
    styles: Mapping[str, ArmStyle] | None = None,
    ax: Panels | None = None,
) -> Figure:
    """Bits per byte against tokens a second, with a line through what nothing beats in both.

    Names stand at their points: there may be more arms than looks.

    Args:
        frame: One row an arm: `label`, `tokens_per_second`, `value` (bits per byte), and `low` and
            `high` where known.
        styles: Looks of the arms; see `arm_styles`.
        ax: A panel of another figure to draw into; None makes a figure.

    Returns:
        The figure.

    Raises:
        ValueError: A column is missing, or an arm has two rows.
    """
    columns = ["label", "tokens_per_second", "value"]
    require_columns(frame, columns, "quality by speed")
    require_one_row_each(frame, ["label"], "quality by speed")
    looks = styles_for(frame["label"], styles)
    figure, (panel,) = new_figure(1, height=3.6, ax=ax)
    best = frame[unbeaten(frame)].sort_values("tokens_per_second")
    x, y = numbers(best, "tokens_per_second"), numbers(best, "value")
    panel.plot(x, y, color=MUTED, linestyle=":", linewidth=1.2, label="unbeaten", zorder=1)
    order = frame.sort_values("tokens_per_second")["label"].astype(str)
    for number, name in enumerate(order):
        own = frame[frame["label"].astype(str) == name]
        draw_interval_line(panel, own, "tokens_per_second", looks[name], label=name)
        # Neighbours' names stand at different heights.
        panel.annotate(
            name,
            (float(own["tokens_per_second"].iloc[0]), float(own["value"].iloc[0])),
            xytext=(6, 6 if number % 2 else -11),
            textcoords="offset points",
            fontsize=8,
        )
    panel.margins(x=0.12)
    panel.set_xscale("log")
    panel.set_xlabel("tokens a second, all rows")
    panel.set_ylabel("bits per byte")
    return figure


def unbeaten(frame: pd.DataFrame) -> np.ndarray:
    """Which arms no other is at least as fast and good as, and better in one of both.

    Args:
        frame: As for `quality_by_speed`.

    Returns:
        A truth value a row.
    """
    speed, bits = numbers(frame, "tokens_per_second"), numbers(frame, "value")
    as_good = (speed[:, None] >= speed) & (bits[:, None] <= bits)
    better = (speed[:, None] > speed) | (bits[:, None] < bits)
    kept: np.ndarray = np.all(~(as_good & better), axis=0)
    return kept


@styled
def values_by_loop(
    frame: pd.DataFrame,
    *,
    what: str,
    counts: str = "loop",
    styles: Mapping[str, ArmStyle] | None = None,
    ax: Panels | None = None,
) -> Figure:
    """A number by loop, or by how many loops there are, one line an arm.

    Args:
        frame: One row a point: `label`, `loop`, `value`, and `low` and `high` where known.
        what: What the number is.
        counts: What the abscissa counts.
        styles: Looks of the arms; see `arm_styles`.
        ax: A panel of another figure to draw into; None makes a figure.

    Returns:
        The figure.

    Raises:
        ValueError: A column is missing, or an arm has two rows of a loop.
    """
    require_columns(frame, ["label", "loop", "value"], "numbers by loop")
    require_one_row_each(frame, ["label", "loop"], "numbers by loop")
    looks = styles_for(frame["label"], styles)
    figure, (panel,) = new_figure(1, ax=ax)
    for name, look in looks.items():
        own = frame[frame["label"].astype(str) == name]
        draw_interval_line(panel, own, "loop", look, label=name)
    panel.set_xticks(sorted(set(numbers(frame, "loop").tolist())))
    panel.set_xlabel(counts)
    panel.set_ylabel(what)
    arm_legend(panel, looks, ax=ax)
    return figure
