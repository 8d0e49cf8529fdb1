"""The tidy table of the studies: a row a cell and number, small, and mergeable."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from lt2theory.experiments.cell_rows import (
    ENVIRONMENT_COLUMNS,
    begun,
    environment_of,
    furthest,
    joined,
)
from lt2theory.experiments.linearization.carry import ROWS
from lt2theory.experiments.linearization.cells import LinearCell, LinearCells
from lt2theory.linearize.evaluation.table import COLUMNS
from lt2theory.runs import RunFolder, read_json
from lt2theory.runs.environment import UNKNOWN
from lt2theory.runs.jsonl import read_lines
from lt2theory.training.sharing import SESSIONS

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
        The table, cells in the order in which they first occur; a done one goes before an
        unfinished one, and of equals the first counts, so that merging twice changes nothing.
    """
    return joined(furthest(tables, lambda rows: (rows["status"].iloc[0] == "done",)), _DTYPES)


def read_linear_table(path: Path) -> pd.DataFrame:
    """Read a table of the studies.

    Args:
        path: A Parquet file, or a study's folder with one in it.

    Returns:
        The table with its dtypes.

    Raises:
        ValueError: It is missing, is no Parquet, or lacks a column.
    """
    path = path / TABLE if path.is_dir() else path
    try:
        table = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is not a readable Parquet file: {error}") from error
    missing = [name for name in _DTYPES if name not in table.columns]
    if missing:
        raise ValueError(f"{path} is no table of linearizations: it lacks {', '.join(missing)}")
    table = table.astype(_DTYPES)
    return table.assign(source=table["source"].fillna(UNKNOWN))


def _cell_table(cell: LinearCell, run: RunFolder) -> pd.DataFrame:
    sessions = read_lines(run.path / SESSIONS)
    rows: list[dict[str, Any]] = []
    facts: dict[str, Any] = {}
    if run.status == "done":
        rows, facts = read_json(run.path / ROWS)["rows"], run.summary()
    cost = sum(line["device_seconds"] for line in sessions)
    rows = [*rows, {"part": "cost", "model": "student", "metric": "cell_seconds", "value": cost}]
    shared = cell.columns() | {name: facts.get(name) for name in ("pattern", "parameters")}
    shared |= {"config_hash": run.config_hash, "status": run.status, "sessions": len(sessions)}
    shared |= {"outcome": facts.get("outcome", "finished") if facts else None}
    shared |= {"text": run.config["reads"]["corpus"], **environment_of(run)}
    frame = pd.DataFrame(rows, columns=list(NUMBER_COLUMNS)).astype(NUMBER_COLUMNS)
    return frame.assign(**shared).astype(CELL_COLUMNS)[list(_DTYPES)]
