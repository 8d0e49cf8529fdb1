"""Carrying out the cells of a study: what is to be done, what it costs, and a session of it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from lt2theory.experiments.cells import AnyCell, Cells, in_order
from lt2theory.experiments.costs import gpu_cost
from lt2theory.experiments.study_table import TABLE, read_study_table, study_table
from lt2theory.runs import Progress, ProgressEvent, Study, run_status, write_table
from lt2theory.training import Account, CurriculumConfig, Job, Runtime, share_device
from lt2theory.training.board import Board
from lt2theory.training.config import Device
from lt2theory.training.curriculum import KIND
from tasks.names import ALIKE, nearest

PUBLISHED = Path(__file__).parents[2] / "results" / TABLE
"""The table of a checkout."""


@dataclass(frozen=True)
class Session:
    """One call.

    Attributes:
        device: Where all cells compute.
        at_once: Cells at a time.
        seconds: How long; None for as long as it takes.
        overwrite: Replace the manifest of a study of other cells; finished runs are kept.
    """

    device: Device
    at_once: int = 1
    seconds: float | None = None
    overwrite: bool = False


def chosen(cells: tuple[AnyCell, ...], patterns: Sequence[str]) -> tuple[AnyCell, ...]:
    """The cells that some pattern names.

    Args:
        cells: The study's cells.
        patterns: Names with `*`, `?` and `[...]`, or an arm's for all its seeds; at least one.

    Returns:
        Those cells, in the order in which they are carried out.

    Raises:
        ValueError: There is no pattern, or one names no cell.
    """
    names = [cell.name for cell in cells]
    if not patterns:
        raise ValueError(
            f"cells: got no pattern, allowed are one or more (such as {', '.join(names[:3])}; * "
            "stands for anything)"
        )
    for pattern in patterns:
        if not any(_is_named(name, pattern) for name in names):
            close = nearest(pattern, names, most=3, alike=ALIKE) or names[:3]
            raise ValueError(
                f"cells: {pattern!r} names none of the {len(names)} cells (such as "
                f"{', '.join(close)}; * stands for anything)"
            )
    wanted = [c for c in cells if any(_is_named(c.name, pattern) for pattern in patterns)]
    return in_order(tuple(wanted))


def _is_named(name: str, pattern: str) -> bool:
    """Whether a pattern names a cell, itself or by its arm."""
    return fnmatchcase(name, pattern) or re.sub(r"-s\d+$", "", name) == pattern


def published(path: Path = PUBLISHED) -> frozenset[str]:
    """The finished runs of a published table.

    Args:
        path: The table; by default that of the checkout.

    Returns:
        Hashes of their configurations; empty where there is no such file, as in an installed
        package.
    """
    if not path.exists():
        return frozenset()
    table = read_study_table(path)
    return frozenset(map(str, table.loc[table["status"] == "done", "config_hash"]))


def plan(
    cells: Cells, root: Path, *, elsewhere: frozenset[str] = frozenset()
) -> list[dict[str, Any]]:
    """What is to be done, and what it costs.

    Args:
        cells: Cells on their device.
        root: The study's folder, which need not exist.
        elsewhere: Hashes of runs that are finished in a published table.

    Returns:
        One mapping a cell: `cell`, `block`, `exploratory`, `run`, `status` (`done`, `unfinished`,
        `absent`, or `published` where it is absent here and finished elsewhere), `stages`, `steps`
        (expected) and `step_cap` over all stages, `steps_by_stage` (expected; the keys are the
        stages), `flops` and `flops_cap`, `gpu_minutes` (expected), and `estimated` (whether nothing
        of the kind was measured).
    """
    rows = []
    for cell in cells:
        cost, run = gpu_cost(cell), cell.run()
        status = run_status(root / run.folder)
        is_published = status == "absent" and run.hash in elsewhere
        rows.append(
            {
                "cell": cell.name,
                "block": cell.block,
                "exploratory": cell.exploratory,
                "run": run.folder,
                "status": "published" if is_published else status,
                "stages": list(cell.resolved.stages),
                "steps": cell.steps(),
                "step_cap": cell.steps(cap=True),
                "steps_by_stage": {str(n): steps for n, steps in cell.steps_by_stage().items()},
                "flops": cell.flops(),
                "flops_cap": cell.flops(cap=True),
                "gpu_minutes": cost.seconds / 60,
                "estimated": cost.estimated,
            }
        )
    return rows


def carry_out(
    cells: Cells,
    wanted: Cells,
    root: Path,
    session: Session,
    *,
    progress: Progress | None = None,
) -> dict[str, Account]:
    """Carry out cells of a study for a session, and write its table.

    Args:
        cells: All cells of the study, on the session's device.
        wanted: Those to be carried out, in order.
        root: The study's folder: a folder a run, the manifest, and the table `study.parquet`.
        session: How.
        progress: Told how many cells are done.

    Returns:
        How every cell ended that was not done before, by name.

    Raises:
        ValueError: The folder holds a study with other cells, or the device is not there.
        DiskFullError: The disk is full; the same call goes on.
        Interrupted: A signal came; the same call goes on.
    """
    Runtime.of(session.device, "float32")  # refused before anything is written
    jobs = {}
    for cell in wanted:
        beside = gpu_cost(cell).seconds * session.at_once if session.device == "cuda" else None
        jobs[cell.name] = Job(cell.resolved, root / cell.run().folder, beside)
    runs = [cell.run() for cell in cells]
    study = Study.create(root, runs, kind=KIND, overwrite=session.overwrite)
    watch = None if progress is None else _Watch(progress, root.name, len(wanted))
    try:
        accounts = share_device(
            list(jobs.values()),
            device=session.device,
            at_once=session.at_once,
            seconds=session.seconds,
            watch=watch,
        )
    finally:
        study.collect()
        write_table(root / TABLE, study_table(cells, root))
    return {name: accounts[job.folder] for name, job in jobs.items() if job.folder in accounts}


class _Watch:
    """Tells how many cells are done and how fast the steps go."""

    def __init__(self, progress: Progress, name: str, total: int) -> None:
        self._progress = progress
        self._name = name
        self._total = total

    def __call__(self, board: Board[CurriculumConfig], taken: tuple[int, ...]) -> None:
        states = [account.state for account in board.accounts.values()]
        done = self._total - len(states) + states.count("done")
        notes = {
            "running": states.count("running"),
            "failed": states.count("failed"),
            "steps": sum(taken),
            "steps a minute": round(60 * sum(taken) / max(board.passed, 1e-3)),
        }
        final = not states.count("running") and not states.count("waiting")
        event = ProgressEvent(self._name, done, self._total, "cell", notes, final=final)
        self._progress(event)
