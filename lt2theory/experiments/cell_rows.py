"""Rows of cells: what the tables of both kinds of studies share."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import pandas as pd

from lt2theory.runs import RunFolder, StudyRun, run_status
from lt2theory.runs.environment import last_environment, sources

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
