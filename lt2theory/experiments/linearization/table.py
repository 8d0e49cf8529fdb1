"""The tidy table of the studies: a row a cell and number, small, and mergeable."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from lt2theory.experiments.linearization.carry import ROWS
from lt2theory.experiments.linearization.cells import LinearCell, LinearCells
from lt2theory.linearize.evaluation.table import COLUMNS
from lt2theory.runs import RunFolder, read_json, run_status
from lt2theory.runs.environment import UNKNOWN, last_environment, sources
from lt2theory.runs.jsonl import read_lines
from lt2theory.training.sharing import SESSIONS

TABLE = "linearization.parquet"
"""The table in a study's folder, and in results/."""
PACKAGES = ("torch", "triton", "lt2theory")

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
    "device": "string",
    "source": "string",
    **dict.fromkeys(PACKAGES, "string"),
}
"""Column -> pandas dtype. `config_hash` covers the cell, the cells that it needs, the text and the
real teacher; `status` is `done` or `unfinished`; `outcome` is `finished` or `diverged`; `text` is
the hash of the corpus."""
NUMBER_COLUMNS: dict[str, str] = {name: dtype for name, (dtype, _) in COLUMNS.items()} | {
    "step": "Int64"
}
"""Those of `lt2theory.linearize.evaluation`, and the optimiser steps before a row of a stage."""


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
    begun = [cell for cell in cells if run_status(root / cell.run().folder) != "absent"]
    return _joined(_cell_table(cell, RunFolder.open(root / cell.run().folder)) for cell in begun)


def merge_linear(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """One table of several sessions or machines: of every cell the rows that are furthest on.

    Args:
        tables: Tables of `linear_table` or `merge_linear`.

    Returns:
        The table, cells in the order in which they first occur; a done one goes before an
        unfinished one, and of equals the first counts, so that merging twice changes nothing.
    """
    best: dict[str, tuple[bool, pd.DataFrame]] = {}
    for table in tables:
        for digest, rows in table.groupby("config_hash", sort=False):
            done = rows["status"].iloc[0] == "done"
            if str(digest) not in best or (done and not best[str(digest)][0]):
                best[str(digest)] = done, rows
    return _joined(rows for _, rows in best.values())


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
    wanted = CELL_COLUMNS | NUMBER_COLUMNS
    missing = [name for name in wanted if name not in table.columns]
    if missing:
        raise ValueError(f"{path} is no table of linearizations: it lacks {', '.join(missing)}")
    table = table.astype(wanted)
    return table.assign(source=table["source"].fillna(UNKNOWN))


def _joined(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    kept = [table for table in tables if len(table)]
    wanted = CELL_COLUMNS | NUMBER_COLUMNS
    if not kept:
        return pd.DataFrame(columns=list(wanted)).astype(wanted)
    return pd.concat(kept, ignore_index=True).astype(wanted)


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
    shared |= {"text": run.config["reads"]["corpus"], **_environment(run)}
    frame = pd.DataFrame(rows, columns=list(NUMBER_COLUMNS)).astype(NUMBER_COLUMNS)
    return frame.assign(**shared).astype(CELL_COLUMNS)[[*CELL_COLUMNS, *NUMBER_COLUMNS]]


def _environment(run: RunFolder) -> dict[str, Any]:
    """Commits of all sessions; device and versions of the last one."""
    last = last_environment(run.path)
    versions = {name: last.get("packages", {}).get(name) for name in PACKAGES}
    return {"device": last.get("device"), "source": sources(run.path)} | versions
