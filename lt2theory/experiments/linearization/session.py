"""Carrying out the cells of a study of linearization: what is to be done, and a session of it.

The boards, accounts and records are those of `lt2 curriculum study`; cells run one after another,
since each fills a GPU, and a cell waits for those that it needs. Several processes, one a GPU, may
share a folder: a cell that one of them carries out is left to it, and what needs it begins after.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lt2theory.experiments.linearization.carry import run_cell
from lt2theory.experiments.linearization.cells import (
    KIND,
    LinearCell,
    LinearCells,
    with_needs,
)
from lt2theory.experiments.linearization.materials import Materials
from lt2theory.experiments.linearization.minutes import (
    cell_seconds,
    price_factors,
    price_kind,
)
from lt2theory.experiments.linearization.table import TABLE, linear_table
from lt2theory.experiments.study import chosen
from lt2theory.runs import DiskFullError, Study, run_status, write_table
from lt2theory.runs.lock import LockedError, is_held
from lt2theory.training import Account, Job, Runtime
from lt2theory.training.board import Board, Turn
from lt2theory.training.sharing import note_session
from lt2theory.training.signals import Interrupted


@dataclass(frozen=True)
class LinearSession:
    """One call.

    Attributes:
        seconds: How long; None for as long as it takes.
        overwrite: Replace the manifest of a study of other cells; finished runs are kept.
    """

    seconds: float | None = None
    overwrite: bool = False


def chosen_cells(cells: LinearCells, patterns: Sequence[str]) -> LinearCells:
    """The cells that some pattern names, and what they need.

    Args:
        cells: The study's cells.
        patterns: As in `lt2theory.experiments.study.chosen`.

    Returns:
        Those cells, in the order in which they are carried out.

    Raises:
        ValueError: A pattern names no cell.
    """
    return with_needs(chosen(cells, patterns))


def linear_plan(cells: LinearCells, root: Path) -> list[dict[str, Any]]:
    """What is to be done, and what it is expected to cost.

    Args:
        cells: The cells.
        root: The study's folder, which need not exist.

    Returns:
        One mapping a cell: `cell`, `study`, `exploratory`, `run`, `status`, `needs`, `tokens` and
        `gpu_minutes`, corrected by what finished cells of the kind took in this folder.
    """
    factors = price_factors(cells, root)
    return [
        {
            "cell": cell.name,
            "study": cell.study,
            "exploratory": cell.exploratory,
            "run": cell.run().folder,
            "status": run_status(root / cell.run().folder),
            "needs": [one.name for one in cell.needs],
            "tokens": cell.tokens,
            "gpu_minutes": _expected(cell, factors) / 60,
        }
        for cell in cells
    ]


def carry_out_linear(
    cells: LinearCells, wanted: LinearCells, session: LinearSession, materials: Materials
) -> dict[str, Account]:
    """Carry out cells for a session, and write the study's table.

    Args:
        cells: All cells of the study.
        wanted: Those to be carried out, in order, with what they need.
        session: How long.
        materials: Texts and teachers; its `root` is the study's folder.

    Returns:
        How every cell ended that was not done before, by name; a cell whose teacher or selection
        is not there yet stays `waiting`.

    Raises:
        ValueError: The folder holds a study with other cells, or the device is not there.
        DiskFullError: The disk is full; the same call goes on.
        Interrupted: A signal came; the same call goes on.
    """
    device, root = materials.execution.device, materials.root
    Runtime.of(device, "float32")  # refused before anything is written
    factors = price_factors(cells, root)
    jobs = {}
    for cell in wanted:
        seconds = _expected(cell, factors) if device == "cuda" else None
        jobs[cell.name] = Job(cell, root / cell.run().folder, seconds)
    Study.create(root, [cell.run() for cell in cells], kind=KIND, overwrite=session.overwrite)
    turn = partial(_turn, root=root)
    board = Board(list(jobs.values()), at_once=1, seconds=session.seconds, turn=turn)
    try:
        while (job := board.take()) is not None:
            _carry_out(job, board, materials)
            board.stop.requested = board.left <= 0
    finally:
        write_table(root / TABLE, linear_table(cells, root))
    for job in jobs.values():
        if job.folder in board.accounts and board.accounts[job.folder].state == "waiting":
            board.accounts[job.folder].message = _lost(job.config, root)
    return {
        name: board.accounts[job.folder]
        for name, job in jobs.items()
        if job.folder in board.accounts
    }


def _carry_out(job: Job[LinearCell], board: Board[LinearCell], materials: Materials) -> None:
    seconds = None if board.left == float("inf") else max(board.left, 1e-3)
    try:
        run_cell(job.config, job.folder, materials, seconds=seconds)
    except Interrupted:
        board.end(job, "stopped")
        if board.left > 0:  # a signal, not the end of the time
            raise
    except LockedError:
        board.end(job, "busy")
        return
    except (DiskFullError, KeyboardInterrupt):
        board.end(job, "stopped")
        raise
    except Exception as error:  # noqa: BLE001 - one cell's fault, whatever it is, spares the others
        board.end(job, "failed", " ".join(f"{type(error).__name__}: {error}".split()))
    else:
        board.end(job, "done")
    finally:
        if (account := board.accounts[job.folder]).state != "busy":
            note_session(job.folder, account, at_once=1)


def _turn(job: Job[LinearCell], *, root: Path) -> Turn:
    """Whether a cell may begin: later, where another process works on something that it needs."""
    if not _lost(job.config, root):
        return "never" if is_held(job.folder) else "now"
    needed = with_needs(job.config.needs)
    return "later" if any(is_held(root / one.run().folder) for one in needed) else "never"


def _lost(cell: LinearCell, root: Path) -> str:
    """What a cell still needs, in words; nothing where all is there."""
    lost = [one.name for one in cell.needs if run_status(root / one.run().folder) != "done"]
    return f"needs {', '.join(lost)}" if lost else ""


def _expected(cell: LinearCell, factors: Mapping[str, float]) -> float:
    """Seconds of a cell by its price, and by how finished ones of its kind compare with theirs."""
    return cell_seconds(cell) * factors.get(price_kind(cell), 1.0)
