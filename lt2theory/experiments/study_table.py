"""The tidy table of a study: small, with all that names a cell, and mergeable.

Its rows are those of `lt2theory.runs.tables` without what only one run's report needs: learning
curves keep some points a stage, and curves along the sequence some positions. Rows of the
splits `cost` and `rank` (`lt2theory.experiments.study_rank_rows`) are added, and the columns of
`CELL_COLUMNS`.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lt2theory.experiments.cell_rows import (
    ENVIRONMENT_COLUMNS,
    begun,
    environment_of,
    furthest,
    joined,
)
from lt2theory.experiments.cells import Cell, Cells
from lt2theory.experiments.study_rank_rows import rank_rows
from lt2theory.runs import COLUMNS, RunFolder, read_table, run_table
from lt2theory.runs.environment import UNKNOWN
from lt2theory.runs.jsonl import read_lines
from lt2theory.training.sharing import SESSIONS

TABLE = "study.parquet"
"""The table in a study's folder."""
CURVE_POINTS = 12
"""Points of a stage's learning curve that are kept, the last among them."""
CURVE_POSITIONS = 9
"""Positions of a curve along the sequence that are kept, first and last among them."""
CURVE_METRICS = ("loss", "scored_accuracy", "sequence_accuracy")
"""Of the splits `train` and `eval`; other splits keep all."""

CELL_COLUMNS: dict[str, str] = {
    "cell": "string",
    "block": "Int64",
    "exploratory": "boolean",
    "pattern": "string",
    "loops": "Int64",
    "loop_state": "string",
    "negative_eigenvalues": "boolean",
    "layers": "Int64",
    "width": "Int64",
    "parameters": "Int64",
    "group": "string",
    "supervision": "string",
    "layout": "string",
    "knobs": "string",
    "stages_asked": "Int64",
    "step_cap": "Int64",
    "batch_size": "Int64",
    "learning_rate": "Float64",
    "pass_mark": "Float64",
    "status": "string",
    "progress": "Int64",
    "sessions": "Int64",
    **ENVIRONMENT_COLUMNS,
}
"""Column -> pandas dtype. `status` is `done` or `unfinished`; `progress` counts optimiser steps;
`device` and the versions are those of the run's last session, `source` the commits of all of them,
`unknown` where git did not say."""
_DTYPES = {name: dtype for name, (dtype, _) in COLUMNS.items()} | CELL_COLUMNS


def study_table(cells: Cells, root: Path) -> pd.DataFrame:
    """The table of every cell that has begun.

    Args:
        cells: Cells on their device.
        root: The study's folder.

    Returns:
        The table.

    Raises:
        ValueError: A run's folder is damaged.
    """
    return joined((_cell_table(cell, run) for cell, run in begun(cells, root)), _DTYPES)


def merge(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """One table of several sessions or machines: of every run the rows that are furthest on.

    A run is known by the hash of its configuration. A finished one goes before an unfinished one,
    more steps before fewer, more rows (its model measured since) before fewer, and of equals the
    first counts; so merging twice changes nothing.

    Args:
        tables: Tables of `study_table` or `merge`.

    Returns:
        The table, runs in the order in which they first occur.
    """
    return joined(furthest(tables, _merit), _DTYPES)


def read_study_table(path: Path) -> pd.DataFrame:
    """Read a table of a study.

    Args:
        path: A Parquet file, or a study's folder with one in it.

    Returns:
        The table with its dtypes.

    Raises:
        ValueError: It is missing, is no Parquet, or lacks a column.
    """
    path = path / TABLE if path.is_dir() else path
    table = read_table(path)
    missing = [name for name in CELL_COLUMNS if name not in table.columns]
    if missing:
        raise ValueError(f"{path} is no table of a study: it lacks {', '.join(missing)}")
    table = table.astype(CELL_COLUMNS)
    return table.assign(source=table["source"].fillna(UNKNOWN))


def _merit(rows: pd.DataFrame) -> tuple[bool, int, int]:
    first = rows.iloc[0]
    return first["status"] == "done", int(first["progress"]), len(rows)


def _cell_table(cell: Cell, run: RunFolder) -> pd.DataFrame:
    rows = thinned(run_table(run))
    sessions = read_lines(run.path / SESSIONS)
    costs = {name: sum(line[name] for line in sessions) for name in ("seconds", "device_seconds")}
    shared = {"run": run.path.name, "config_hash": run.config_hash, **run.identity}
    added = [{"split": "cost", "metric": name, "value": value} for name, value in costs.items()]
    added += rank_rows(run)
    more = pd.DataFrame([shared | row for row in added], columns=list(COLUMNS))
    more = more.astype(rows.dtypes.to_dict())
    facts = cell.columns() | _facts(run) | {"sessions": len(sessions)}
    return pd.concat([rows, more], ignore_index=True).assign(**facts)[[*COLUMNS, *CELL_COLUMNS]]


def _facts(run: RunFolder) -> dict[str, Any]:
    steps = [line["step"] for line in run.metrics() if line.get("step") is not None]
    found: dict[str, Any] = {"status": run.status, "progress": max(steps, default=0)}
    return found | environment_of(run)


def thinned(table: pd.DataFrame) -> pd.DataFrame:
    """Drop most points of learning curves and of curves along the sequence.

    Args:
        table: The tidy table of one run.

    Returns:
        Its other rows, and what `CURVE_POINTS`, `CURVE_POSITIONS` and `CURVE_METRICS` keep.
    """
    learning = table["split"].isin(["train", "eval"])
    along = table["position"].notna()
    keep = ~learning & ~along
    named = learning & ~along & table["metric"].isin(CURVE_METRICS)
    for _, group in table[named].groupby(["stage", "split", "metric"], sort=False):
        keep[group.index[_spread(len(group), CURVE_POINTS)]] = True
    for _, group in table[along & ~learning].groupby(["stage", "split", "metric"], sort=False):
        keep[group.index[_spread(len(group), CURVE_POSITIONS)]] = True
    return table[keep].reset_index(drop=True)


def _spread(count: int, most: int) -> list[int]:
    """So many places of a list, evenly, its last always and its first where more than one."""
    if count <= most:
        return list(range(count))
    return sorted({round(float(place)) for place in np.linspace(0, count - 1, most)})
