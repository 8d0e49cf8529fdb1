"""The tidy table of the studies: a row a cell and number, small, and mergeable."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from lt2theory.experiments.cell_rows import (
    ENVIRONMENT_COLUMNS,
    begun,
    frame_of_cell,
    joined,
    merged_cells,
    read_cell_table,
)
from lt2theory.experiments.linearization.cells import LinearCell, LinearCells
from lt2theory.linearize.evaluation.table import COLUMNS
from lt2theory.runs import RunFolder

TABLE = "linearization.parquet"
"""The table in a study's folder, and in results/."""

CELL_COLUMNS: dict[str, str] = {
    "config_hash": "string",
    "study": "string",
    "cell": "string",
    "block": "Int64",
    "arm": "string",
    "seed": "Int64",
    "exploratory": "boolean",
    "teacher": "string",
    "mixer": "string",
    "size": "string",
    "budget": "Int64",
    "tokens": "Int64",
    "status": "string",
    "outcome": "string",
    "pattern": "string",
    "parameters": "Int64",
    "text": "string",
    "sessions": "Int64",
    **ENVIRONMENT_COLUMNS,
}
"""Column -> pandas dtype. `config_hash` covers the cell, the cells that it needs, the text and the
real teacher; `status` is `done` or `unfinished`; `outcome` is `finished` or `diverged`; `text` is
the hash of the corpus."""
NUMBER_COLUMNS: dict[str, str] = {name: dtype for name, (dtype, _) in COLUMNS.items()} | {
    "step": "Int64"
}
"""Those of `lt2theory.linearize.evaluation`, and the optimiser steps before a row of a stage."""
_DTYPES = CELL_COLUMNS | NUMBER_COLUMNS


def linear_table(cells: LinearCells, root: Path) -> pd.DataFrame:
    """The table of every cell that has begun.

    Args:
        cells: Cells of the study.
        root: The study's folder.

    Returns:
        The table; an unfinished cell has its cost alone.

    Raises:
        ValueError: A run's folder is damaged.
    """
    return joined((_cell_table(cell, run) for cell, run in begun(cells, root)), _DTYPES)


def merge_linear(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """One table of several sessions or machines: of every cell the rows that are furthest on.

    Args:
        tables: Tables of `linear_table` or `merge_linear`.

    Returns:
        As `lt2theory.experiments.cell_rows.merged_cells`.
    """
    return merged_cells(tables, _DTYPES)


def read_linear_table(path: Path) -> pd.DataFrame:
    """Read a table of the studies.

    Args:
        path: A Parquet file, or a study's folder with one in it.

    Returns:
        The table with its dtypes.

    Raises:
        ValueError: It is missing, is no Parquet, or lacks a column.
    """
    return read_cell_table(path, TABLE, _DTYPES, "linearizations")


def _cell_table(cell: LinearCell, run: RunFolder) -> pd.DataFrame:
    told = cell.columns() | {"text": run.config["reads"]["corpus"]}
    facts = ("pattern", "parameters")
    return frame_of_cell(run, told, facts=facts, model="student", dtypes=_DTYPES)
