"""Which cells of the study a statement about all of some kind is about, and which have ended.

What is said of all is broken by one cell, and kept when every cell that it is about has ended.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cache

import pandas as pd

from lt2theory.experiments.cells import Cell, Cells
from lt2theory.experiments.study_cells import loops
from lt2theory.report.views import outcomes


@cache
def cells_about(task: str, patterns: tuple[str, ...] | None = None) -> Cells:
    """Cells of the study `loops` on a task.

    Args:
        task: The task.
        patterns: Layer patterns that are meant; None means all.

    Returns:
        The cells, exploratory ones among them.
    """
    return tuple(
        cell
        for cell in loops()
        if cell.config.task.name == task
        and (patterns is None or cell.config.model.pattern in patterns)
    )


def seeds_of(label: str) -> int:
    """How many seeds an arm of the study `loops` has.

    Args:
        label: The arm.

    Returns:
        Its cells.

    Raises:
        KeyError: The study has no such arm.
    """
    return _arms()[label]


@cache
def _arms() -> dict[str, int]:
    return dict(Counter(cell.config.label for cell in loops()))


def not_ended(table: pd.DataFrame, cells: Sequence[Cell]) -> Cells:
    """Cells that have not ended.

    Args:
        table: A study's table.
        cells: Cells of the study.

    Returns:
        Those without an end in the table, known by arm and seed.
    """
    ends = outcomes(table)
    ended = set(zip(ends["label"].astype(str), ends["seed"].astype(int), strict=True))
    return tuple(cell for cell in cells if (cell.config.label, cell.config.seed) not in ended)


def said_missing(missing: int, cells: Sequence[Cell]) -> str:
    """How many cells are missing, in words.

    Args:
        missing: How many.
        cells: All that the statement is about.

    Returns:
        A sentence, or "" where none is missing.
    """
    return f" Of {len(cells)} cells that this is about {missing} are missing." if missing else ""
