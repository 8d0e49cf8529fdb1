"""The tidy table of the study: a row a cell and number, small, and mergeable."""

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
from lt2theory.experiments.language.cells import MODEL, LanguageCell, LanguageCells
from lt2theory.experiments.linearization.table import NUMBER_COLUMNS
from lt2theory.runs import RunFolder

TABLE = "language-study.parquet"
"""The table in a study's folder, and in results/."""

CELL_COLUMNS: dict[str, str] = {
    "config_hash": "string",
    "study": "string",
    "cell": "string",
    "block": "Int64",
    "arm": "string",
    "seed": "Int64",
    "exploratory": "boolean",
    "tokens": "Int64",
    "pattern": "string",
    "layers": "Int64",
    "loops": "Int64",
    "loop_state": "string",
    "softmax_visits": "Int64",
    "learning_rate": "Float64",
    "parameters": "Int64",
    "flops_a_token": "Float64",
    "status": "string",
    "outcome": "string",
    "text": "string",
    "sessions": "Int64",
    **ENVIRONMENT_COLUMNS,
}
"""Column -> pandas dtype. `config_hash` covers the cell and the text; `softmax_visits` counts full
layers, loop by loop; `flops_a_token` are the products of a training step over its tokens; `status`
is `done` or `unfinished`, `outcome` is `finished` or `diverged`."""
DTYPES = CELL_COLUMNS | NUMBER_COLUMNS


def language_table(cells: LanguageCells, root: Path) -> pd.DataFrame:
    """The table of every cell that has begun.

    Args:
        cells: Cells of the study.
        root: The study's folder.

    Returns:
        The table; an unfinished cell has its cost alone.

    Raises:
        ValueError: A run's folder is damaged.
    """
    return joined((_cell_table(cell, run) for cell, run in begun(cells, root)), DTYPES)


def merge_language(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """One table of several sessions or machines: of every cell the rows that are furthest on.

    Args:
        tables: Tables of `language_table` or `merge_language`.

    Returns:
        As `lt2theory.experiments.cell_rows.merged_cells`.
    """
    return merged_cells(tables, DTYPES)


def read_language_table(path: Path) -> pd.DataFrame:
    """Read a table of the study.

    Args:
        path: A Parquet file, or a study's folder with one in it.

    Returns:
        The table with its dtypes.

    Raises:
        ValueError: It is missing, is no Parquet, or lacks a column.
    """
    return read_cell_table(path, TABLE, DTYPES, "language models")


def _cell_table(cell: LanguageCell, run: RunFolder) -> pd.DataFrame:
    told = cell.columns() | {"text": run.config["reads"]["corpus"]}
    return frame_of_cell(run, told, facts=(), model=MODEL, dtypes=DTYPES)
