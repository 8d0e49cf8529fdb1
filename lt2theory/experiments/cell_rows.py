"""Rows of cells: what the tables of all kinds of studies share."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import pandas as pd

from lt2theory.experiments.cell_folder import ROWS
from lt2theory.runs import RunFolder, StudyRun, read_json, run_status
from lt2theory.runs.environment import UNKNOWN, last_environment, sources
from lt2theory.runs.jsonl import read_lines
from lt2theory.training.sharing import SESSIONS

PACKAGES = ("torch", "triton", "lt2theory")
ENVIRONMENT_COLUMNS: dict[str, str] = {
    "device": "string",
    "source": "string",
    **dict.fromkeys(PACKAGES, "string"),
}
"""Column -> pandas dtype, as `environment_of` gives them."""


@runtime_checkable
class Runnable(Protocol):
    """What rows need of a cell."""

    def run(self) -> StudyRun:
        """The cell as a run of its study."""


SomeCell = TypeVar("SomeCell", bound=Runnable)


def begun(cells: Sequence[SomeCell], root: Path) -> Iterator[tuple[SomeCell, RunFolder]]:
    """The cells that have begun, with their runs.

    Args:
        cells: Cells of a study.
        root: The study's folder.

    Yields:
        Cell and run, in order.

    Raises:
        ValueError: A run's folder is damaged.
    """
    for cell in cells:
        folder = root / cell.run().folder
        if run_status(folder) != "absent":
            yield cell, RunFolder.open(folder)


def environment_of(run: RunFolder) -> dict[str, Any]:
    """Commits of all sessions of a run; device and versions of the last one.

    Args:
        run: The run.

    Returns:
        Values of `ENVIRONMENT_COLUMNS`.
    """
    last = last_environment(run.path)
    versions = {name: last.get("packages", {}).get(name) for name in PACKAGES}
    return {"device": last.get("device"), "source": sources(run.path)} | versions


def joined(tables: Iterable[pd.DataFrame], dtypes: Mapping[str, str]) -> pd.DataFrame:
    """One table below the other.

    Args:
        tables: Tables with those columns; there may be none.
        dtypes: Column -> pandas dtype.

    Returns:
        The table.
    """
    kept = [table for table in tables if len(table)]
    whole = pd.concat(kept, ignore_index=True) if kept else pd.DataFrame(columns=list(dtypes))
    return whole.astype(dtypes)


def furthest(
    tables: Iterable[pd.DataFrame], merit: Callable[[pd.DataFrame], tuple[float, ...]]
) -> Iterator[pd.DataFrame]:
    """Of every run, known by the hash of its configuration, the rows that are furthest on.

    Args:
        tables: Tables of several sessions or machines.
        merit: How far the rows of a run are; of equals the first count, so that merging twice
            changes nothing.

    Yields:
        Rows of a run, in the order in which runs first occur.
    """
    best: dict[str, tuple[tuple[float, ...], pd.DataFrame]] = {}
    for table in tables:
        for digest, rows in table.groupby("config_hash", sort=False):
            now = merit(rows)
            if str(digest) not in best or now > best[str(digest)][0]:
                best[str(digest)] = now, rows
    for _, rows in best.values():
        yield rows


def frame_of_cell(
    run: RunFolder,
    told: Mapping[str, Any],
    *,
    facts: Sequence[str],
    model: str,
    dtypes: Mapping[str, str],
) -> pd.DataFrame:
    """The rows of a cell that `cell_folder` has carried out; of an unfinished one its cost alone.

    Args:
        run: Its run.
        told: What names it.
        facts: Fields of its summary that are told as well.
        model: What the cost is said of.
        dtypes: Column -> pandas dtype of the table.

    Returns:
        Its part of the table, with a row `cell_seconds`.
    """
    sessions = read_lines(run.path / SESSIONS)
    rows: list[dict[str, Any]] = []
    found: dict[str, Any] = {}
    if run.status == "done":
        rows, found = read_json(run.path / ROWS)["rows"], run.summary()
    cost = sum(line["device_seconds"] for line in sessions)
    rows = [*rows, {"part": "cost", "model": model, "metric": "cell_seconds", "value": cost}]
    shared = {**told, **{name: found.get(name) for name in facts}}
    shared |= {"config_hash": run.config_hash, "status": run.status, "sessions": len(sessions)}
    shared |= {"outcome": found.get("outcome", "finished") if found else None}
    shared |= environment_of(run)
    names = list(dtypes)
    return pd.DataFrame(rows).assign(**shared).reindex(columns=names).astype(dtypes)


def merged_cells(tables: Iterable[pd.DataFrame], dtypes: Mapping[str, str]) -> pd.DataFrame:
    """One table of several sessions or machines, of cells that are done or not.

    Args:
        tables: Tables of such cells, merged before or not.
        dtypes: Column -> pandas dtype.

    Returns:
        The table, cells in the order in which they first occur; a done one goes before an
        unfinished one, and of equals the first counts, so that merging twice changes nothing.
    """
    return joined(furthest(tables, lambda rows: (rows["status"].iloc[0] == "done",)), dtypes)


def read_cell_table(path: Path, name: str, dtypes: Mapping[str, str], what: str) -> pd.DataFrame:
    """Read a table of cells.

    Args:
        path: A Parquet file, or a study's folder with one in it.
        name: Of the file in such a folder.
        dtypes: Column -> pandas dtype.
        what: What the table is of, in the plural.

    Returns:
        The table with its dtypes.

    Raises:
        ValueError: It is missing, is no Parquet, or lacks a column.
    """
    path = path / name if path.is_dir() else path
    try:
        table = pd.read_parquet(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is not a readable Parquet file: {error}") from error
    missing = [column for column in dtypes if column not in table.columns]
    if missing:
        raise ValueError(f"{path} is no table of {what}: it lacks {', '.join(missing)}")
    table = table.astype(dtypes)
    return table.assign(source=table["source"].fillna(UNKNOWN))
