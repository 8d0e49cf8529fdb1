"""What the notebooks call: figures with knobs, sliders where a kernel is live, and small settings.

Every figure here has defaults for all its knobs, so that a page without a kernel shows it too.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from pydantic import BaseModel

from lt2theory.analysis import (
    designed_transitions,
    distance_quantile,
    influence_law,
    influence_mean,
    reach,
)
from lt2theory.experiments.study_table import merge, read_study_table
from lt2theory.experiments.study_views import stages_reached
from lt2theory.report import (
    effective_rank_by_loops,
    effective_ranks,
    influence_by_distance,
    influence_curve,
    new_figure,
    spectrum_by_loops,
)
from lt2theory.runs import study_run

VARIABLE = "LT2_NOTEBOOKS"
"""Environment variable: `fast` makes the notebooks tiny, as the checks run them."""

Draw = Callable[..., Figure]


def is_fast() -> bool:
    """Whether notebooks should take tiny settings and no sliders.

    Returns:
        Whether the environment asks for it.

    Raises:
        ValueError: The variable has another value than `fast`.
    """
    asked = os.environ.get(VARIABLE, "")
    if asked not in ("", "fast"):
        raise ValueError(f"{VARIABLE}: {asked!r} is not allowed (must be 'fast' or unset)")
    return asked == "fast"


def explore(draw: Draw, **knobs: Any) -> Any:
    """A figure with sliders where a kernel is live, else the figure with its defaults.

    Args:
        draw: Draws the figure; every knob has a default.
        knobs: Ranges as ipywidgets reads them: `(low, high)` or `(low, high, step)`.

    Returns:
        A widget, or the figure.
    """
    if not _is_live():
        return draw()
    from ipywidgets import interactive

    return interactive(draw, **knobs)


def _is_live() -> bool:
    """Whether somebody can move a slider."""
    if is_fast():
        return False
    try:
        import ipywidgets  # noqa: F401 - whether it is there
        from IPython import get_ipython
    except ImportError:
        return False
    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def rank_expansion(
    num_loops: int = 4,
    coherence: float = 0.3,
    beta: float = 1.0,
    decay: float = 1.0,
    dim: int = 16,
) -> Figure:
    """Spectrum and effective rank of T composed loops, with keys, erasure and gates by design.

    Args:
        num_loops: Largest number of loops T.
        coherence: Cosine between the keys of any two loops, in [0, 1].
        beta: Erase strength, in [0, 2].
        decay: Scalar decay, in (0, 1].
        dim: Key width, above T.

    Returns:
        The figure.
    """
    table = designed_transitions(num_loops, dim=dim, coherence=coherence, beta=beta, decay=decay)
    figure, (left, right) = new_figure(2, height=3.8, width=12.5)
    spectrum_by_loops(table, ax=left)
    ranks = effective_ranks(table[table["index"] == 0], f"coherence {coherence:g}")
    effective_rank_by_loops(ranks, ax=right)
    return figure


def window_influence(window: int = 16, residual: float = 0.5, loops: int = 8) -> Figure:
    """The influence law W3 of a looped window layer, for one loop and for several.

    Args:
        window: Tokens w that a layer sees, itself included.
        residual: Weight a of the residual, in [0, 1].
        loops: Number of loops beside one.

    Returns:
        The figure.
    """
    counts = {f"T={count}": count for count in dict.fromkeys((1, loops))}
    curves = [
        influence_curve(influence_law(window, residual, count), label)
        for label, count in counts.items()
    ]
    reaches = {label: int(reach(1, count, window)) for label, count in counts.items()}
    quantity = "influence (share)"
    return influence_by_distance(pd.concat(curves), reach=reaches, quantity=quantity)


def influence_quantiles(
    window: int = 100, residual: float = 0.95, *, applications: tuple[int, ...] = (1, 5, 8, 9, 25)
) -> pd.DataFrame:
    """Within which distance 99 % of the influence lies, beside "about 1.5 w" (theory W4).

    Args:
        window: Tokens w that a layer sees, itself included.
        residual: Weight a of the residual, in [0, 1].
        applications: Numbers of layers in a row, N T.

    Returns:
        One row each: `N T`, `mean distance`, `99 % within`, `1.5 w`, `holds`, `reach`.
    """
    rows = []
    for count in applications:
        found = int(distance_quantile(influence_law(window, residual, count), 0.99))
        mean = influence_mean(window, residual, count)
        rows.append((count, mean, found, 1.5 * window, found <= 1.5 * window))
    names = ["N T", "mean distance", "99 % within", "1.5 w", "holds"]
    table = pd.DataFrame(rows, columns=names)
    reaches = [int(reach(1, count, window)) for count in applications]
    return table.assign(reach=np.asarray(reaches))


def run_folder(settings: BaseModel, root: Path, *, after: Path | None = None) -> Path:
    """Where a notebook keeps what comes of some settings, named after them.

    Changed settings begin afresh beside the others; none meets another's files.

    Args:
        settings: All that decides it, such as a resolved configuration or a recipe.
        root: Folder of all runs.
        after: Folder from this function of what it builds on, such as the teacher's.

    Returns:
        The folder, which need not exist.
    """
    label = next(
        (getattr(settings, name) for name in ("label", "name") if hasattr(settings, name)),
        type(settings).__name__,
    )
    told = settings.model_dump(mode="json") | ({} if after is None else {"after": after.name})
    return root / study_run(told, {"label": label, "seed": getattr(settings, "seed", 0)}).folder


def committed_study(path: Path) -> pd.DataFrame:
    """The study's table.

    Args:
        path: Its Parquet file, such as results/study.parquet.

    Returns:
        The table; without rows where the file is not there yet.

    Raises:
        ValueError: The file is damaged.
    """
    return read_study_table(path) if path.exists() else merge(())


def stage_table(study: pd.DataFrame) -> pd.DataFrame:
    """The largest stage that every seed of every arm solved.

    Args:
        study: A study's table.

    Returns:
        One row an arm, one column a seed; 0 where no stage was solved, empty without runs.
    """
    reached = stages_reached(study)
    return reached.pivot_table(index="label", columns="seed", values="reached", aggfunc="max")
