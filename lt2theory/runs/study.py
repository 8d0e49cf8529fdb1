"""A study: a manifest of configurations, a folder a run, and one tidy Parquet of all of them."""

import contextlib
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from lt2theory.cards import listing
from lt2theory.runs.atomic import read_json, write_json
from lt2theory.runs.executors import Assignment, Ending, Executor, LocalExecutor, RunOne
from lt2theory.runs.found import found
from lt2theory.runs.hashing import config_hash
from lt2theory.runs.layout import MANIFEST as MANIFEST
from lt2theory.runs.layout import run_status
from lt2theory.runs.progress import Progress, ProgressEvent
from lt2theory.runs.store import RunFolder
from lt2theory.runs.tables import collect, write_table

RESULTS = "results.parquet"
REFRESH = 30.0
"""Least seconds between two writings of the table while runs go on."""


class StudyError(RuntimeError):
    """Some runs of a study failed; the others are finished and in its table."""


@dataclass(frozen=True)
class StudyRun:
    """One line of a manifest.

    Attributes:
        folder: Name of the run's folder inside the study's.
        hash: Hash of the configuration.
        identity: `label`, `seed` and `task` for the tidy table.
        config: The configuration as plain JSON values.
    """

    folder: str
    hash: str
    identity: dict[str, Any]
    config: dict[str, Any]


def study_run(config: Mapping[str, Any], identity: Mapping[str, Any]) -> StudyRun:
    """Name a run after its arm, its seed and the hash of its configuration.

    Args:
        config: The configuration as plain JSON values.
        identity: `label`, `seed` and `task`.

    Returns:
        The run; equal configurations give equal folders.
    """
    digest = config_hash(config)
    label = re.sub(r"[^A-Za-z0-9.=+-]+", "_", str(identity["label"])).strip("._") or "run"
    folder = f"{label}-seed{identity['seed']}-{digest}"
    return StudyRun(folder, digest, dict(identity), dict(config))


class Study:
    """A folder with manifest.json, a folder a run, and results.parquet.

    Attributes:
        root: The study's folder.
        kind: Which trainer its runs belong to.
        runs: The runs of the manifest.
    """

    def __init__(self, root: Path) -> None:
        if not (root / MANIFEST).is_file():
            raise ValueError(f"{root} is not a study: it has no {MANIFEST}; found {found(root)}")
        manifest = read_json(root / MANIFEST)
        self.root = root
        try:
            self.kind: str = manifest["kind"]
            self.runs = tuple(StudyRun(**entry) for entry in manifest["runs"])
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"{root / MANIFEST} is not a study's manifest ({error}); found {found(root)}"
            ) from error

    @classmethod
    def create(
        cls, root: Path, runs: Iterable[StudyRun], *, kind: str, overwrite: bool = False
    ) -> "Study":
        """Write a study's manifest, or check or extend the one that is there.

        Args:
            root: The study's folder; made if it is missing.
            runs: Its runs.
            kind: Which trainer they belong to.
            overwrite: Replace a manifest that holds other runs (their folders stay).

        Returns:
            The study.

        Raises:
            ValueError: Two runs are equal, or the folder holds a study with runs that are not among
                these.
        """
        wanted = list(runs)
        names = [run.folder for run in wanted]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"configs: the run {twice} appears twice; runs must differ")
        if (root / MANIFEST).exists() and not overwrite:
            lost = {run.folder for run in cls(root).runs} - set(names)
            if lost:
                raise ValueError(
                    f"{root} holds a study with {len(lost)} runs that are not in this one "
                    f"(such as {min(lost)}); choose another folder or give overwrite=True"
                )
        root.mkdir(parents=True, exist_ok=True)
        entries = [vars(run) for run in wanted]
        write_json(root / MANIFEST, {"kind": kind, "runs": entries})
        return cls(root)

    def _repr_html_(self) -> str:
        """What a notebook shows: every run and how far it is."""
        rows = [
            (*(run.identity[name] for name in ("label", "seed", "task")),
             run_status(self.root / run.folder), run.folder)
            for run in self.runs
        ]  # fmt: skip
        title = f"Study {self.root}: {len(rows)} runs of kind {self.kind}"
        return listing(title, ("label", "seed", "task", "status", "folder"), rows)

    def run_folders(self) -> list[RunFolder]:
        """The runs that have begun.

        Returns:
            Their folders, in the manifest's order.
        """
        paths = [self.root / run.folder for run in self.runs]
        return [RunFolder.open(path) for path in paths if run_status(path) != "absent"]

    def collect(self) -> pd.DataFrame:
        """Gather the runs' numbers and write results.parquet.

        Returns:
            The tidy table (`runs.tables`) of every run that has begun.
        """
        table = collect(self.run_folders())
        write_table(self.root / RESULTS, table)
        return table


def run_study(
    study: Study,
    run_one: RunOne,
    *,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Carry out the runs that are not done, several at a time, and collect all.

    A run that fails does not stop the others. An interrupt stops all, and the same call goes on
    where they stopped.

    Args:
        study: The study.
        run_one: Carries out, or continues, one run.
        executor: Where; this process by default.
        progress: Told when a run ends.

    Returns:
        The tidy table.

    Raises:
        StudyError: Runs failed; their messages are in it, and the table of the others is written.
    """
    executor = executor or LocalExecutor()
    endings = spread(study, study.runs, run_one, executor, progress=progress)
    failures = [ending for ending in endings if ending.fault]
    table = study.collect()
    if failures:
        raise StudyError(
            f"{len(failures)} of {len(study.runs)} runs of {study.root} failed: "
            + "; ".join(f"{ending.folder.name}: {ending.fault}" for ending in failures)
        )
    return table


def spread(
    study: Study,
    runs: Iterable[StudyRun],
    run_one: RunOne,
    executor: Executor,
    *,
    progress: Progress | None = None,
) -> Iterator[Ending]:
    """Hand the runs that are not done to an executor, and keep results.parquet up to date.

    Args:
        study: The study.
        runs: Runs of its manifest.
        run_one: Carries out, or continues, one run.
        executor: Where.
        progress: Told when a run ends.

    Yields:
        How each has ended that was not done before, as soon as it has.
    """
    every = list(runs)
    waiting = [run for run in every if run_status(study.root / run.folder) != "done"]
    # Other processes may work in other folders.
    root = study.root.resolve()
    assignments = [Assignment(run.config, root / run.folder) for run in waiting]
    failed, written = 0, time.monotonic()
    with contextlib.closing(executor.carry_out(run_one, assignments)) as endings:
        for number, ending in enumerate(endings, start=1 + len(every) - len(waiting)):
            failed += ending.fault is not None
            _report(progress, study.root.name, number, len(every), failed)
            if time.monotonic() - written > REFRESH:
                study.collect()
                written = time.monotonic()
            yield ending


def _report(progress: Progress | None, name: str, done: int, total: int, failed: int) -> None:
    if progress is not None:
        notes = {"failed": failed} if failed else {}
        progress(ProgressEvent(name, done, total, unit="run", notes=notes, final=done == total))
