"""Sessions of studies whose cells run one after another, since each fills a GPU.

The boards, accounts and records are those of `lt2 curriculum study`. Several processes, one a GPU,
may share a folder: a cell that one of them carries out is left to it.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from lt2theory.runs import DiskFullError, Study, StudyRun, run_status
from lt2theory.runs.jsonl import read_lines
from lt2theory.runs.lock import LockedError
from lt2theory.training import Account, Job, Runtime
from lt2theory.training.board import Board, Turn
from lt2theory.training.config import Device
from lt2theory.training.sharing import SESSIONS, note_session
from lt2theory.training.signals import Interrupted


@runtime_checkable
class Serial(Protocol):
    """What a session needs of a cell."""

    @property
    def name(self) -> str:
        """What a command line calls it."""

    @property
    def study(self) -> str:
        """The study, or the part of one, that it belongs to."""

    @property
    def exploratory(self) -> bool:
        """One seed and no claim."""

    @property
    def tokens(self) -> int:
        """Tokens that it learns from."""

    def run(self) -> StudyRun:
        """The cell as a run of its study."""


AnyCell = TypeVar("AnyCell", bound=Serial)


@dataclass(frozen=True)
class SerialSession:
    """One call.

    Attributes:
        seconds: How long; None for as long as it takes.
        overwrite: Replace the manifest of a study of other cells; finished runs are kept.
    """

    seconds: float | None = None
    overwrite: bool = False


@dataclass(frozen=True)
class Prices(Generic[AnyCell]):
    """What cells are expected to take on one H200.

    Attributes:
        seconds: Of a cell.
        kind: What cells are alike in how their price compares with what they take.
    """

    seconds: Callable[[AnyCell], float]
    kind: Callable[[AnyCell], str]

    def factors(self, cells: Iterable[AnyCell], root: Path) -> dict[str, float]:
        """How much longer than their price the finished cells of a folder took on its machine.

        Args:
            cells: Cells of the study.
            root: The study's folder.

        Returns:
            A factor for each kind of which a cell has ended and its sessions are known.
        """
        sums: dict[str, tuple[float, float]] = {}
        for cell in cells:
            folder = root / cell.run().folder
            if run_status(folder) != "done":
                continue
            if taken := sum(line["device_seconds"] for line in read_lines(folder / SESSIONS)):
                before = sums.get(self.kind(cell), (0.0, 0.0))
                sums[self.kind(cell)] = before[0] + taken, before[1] + self.seconds(cell)
        return {kind: taken / price for kind, (taken, price) in sums.items()}

    def expected(self, cell: AnyCell, factors: Mapping[str, float]) -> float:
        """Seconds of a cell by its price, and by how finished ones of its kind compare with theirs.

        Args:
            cell: The cell.
            factors: Of `factors`.

        Returns:
            Seconds.
        """
        return self.seconds(cell) * factors.get(self.kind(cell), 1.0)


def serial_plan(
    cells: Sequence[AnyCell], root: Path, prices: Prices[AnyCell]
) -> list[dict[str, Any]]:
    """What is to be done, and what it is expected to cost.

    Args:
        cells: The cells.
        root: The study's folder, which need not exist.
        prices: What cells are expected to take.

    Returns:
        One mapping a cell: `cell`, `study`, `exploratory`, `run`, `status`, `tokens` and
        `gpu_minutes`, corrected by what finished cells of the kind took in this folder.
    """
    factors = prices.factors(cells, root)
    return [
        {
            "cell": cell.name,
            "study": cell.study,
            "exploratory": cell.exploratory,
            "run": cell.run().folder,
            "status": run_status(root / cell.run().folder),
            "tokens": cell.tokens,
            "gpu_minutes": prices.expected(cell, factors) / 60,
        }
        for cell in cells
    ]


def serial_jobs(
    cells: Sequence[AnyCell],
    wanted: Sequence[AnyCell],
    root: Path,
    device: Device,
    prices: Prices[AnyCell],
) -> dict[str, Job[AnyCell]]:
    """The cells of a session as jobs.

    Args:
        cells: All cells of the study, for the prices.
        wanted: Those to be carried out, in order.
        root: The study's folder.
        device: Where they run; on a CPU nobody knows how long they take.
        prices: What they are expected to take.

    Returns:
        By name.

    Raises:
        ValueError: The device is not there.
    """
    Runtime.of(device, "float32")  # refused before anything is written
    factors = prices.factors(cells, root)
    return {
        cell.name: Job(
            cell,
            root / cell.run().folder,
            prices.expected(cell, factors) if device == "cuda" else None,
        )
        for cell in wanted
    }


def carry_out_serially(
    cells: Sequence[AnyCell],
    jobs: Mapping[str, Job[AnyCell]],
    root: Path,
    session: SerialSession,
    *,
    kind: str,
    work: Callable[[Job[AnyCell], float | None], None],
    turn: Callable[[Job[AnyCell]], Turn] | None = None,
) -> dict[str, Account]:
    """Carry out jobs for a session.

    Args:
        cells: All cells of the study.
        jobs: Those to be carried out, by name, in order.
        root: The study's folder.
        session: How long.
        kind: Kind of the runs.
        work: Carries out a job within so many seconds (None: no end), or goes on where it stopped.
        turn: Whether a job may begin; None lets all begin.

    Returns:
        How every cell ended that was not done before, by name.

    Raises:
        ValueError: The folder holds a study with other cells.
        DiskFullError: The disk is full; the same call goes on.
        Interrupted: A signal came; the same call goes on.
    """
    Study.create(root, [cell.run() for cell in cells], kind=kind, overwrite=session.overwrite)
    board = Board(list(jobs.values()), at_once=1, seconds=session.seconds, turn=turn)
    while (job := board.take()) is not None:
        _carry_out(job, board, work)
        board.stop.requested = board.left <= 0
    return {
        name: board.accounts[job.folder]
        for name, job in jobs.items()
        if job.folder in board.accounts
    }


def _carry_out(
    job: Job[AnyCell], board: Board[AnyCell], work: Callable[[Job[AnyCell], float | None], None]
) -> None:
    seconds = None if board.left == float("inf") else max(board.left, 1e-3)
    try:
        work(job, seconds)
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
