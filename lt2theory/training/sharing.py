"""Several runs at a time on one device, in one process: a thread and a CUDA stream for each.

Steps are CUDA graphs, so the kernels of several small models run beside each other, and the host
has little to do. A run gives the same bytes alone and beside others, as far as the device repeats
itself. What is compiled for one run is there for the next.
"""

import contextlib
import gc
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from lt2theory.runs import DiskFullError
from lt2theory.runs.executors.base import said
from lt2theory.runs.jsonl import append_line, drop_torn_line
from lt2theory.runs.lock import LockedError
from lt2theory.training.board import Account, Board, Job
from lt2theory.training.config import CurriculumConfig, Device
from lt2theory.training.curriculum import run_curriculum
from lt2theory.training.feeder import Feeder
from lt2theory.training.runtime import Runtime
from lt2theory.training.seat import Seat
from lt2theory.training.signals import Interrupted, stop_requests

SESSIONS = "sessions.jsonl"
"""What every session spent on a run, in its folder."""

Watch = Callable[[Board[CurriculumConfig], tuple[int, ...]], None]
"""Told several times a second how the session stands, and the training steps begun in each seat."""


def share_device(
    jobs: Sequence[Job[CurriculumConfig]],
    *,
    device: Device,
    at_once: int = 1,
    seconds: float | None = None,
    watch: Watch | None = None,
) -> dict[Path, Account]:
    """Carry out runs, several at a time; those that are done are skipped, unfinished ones go on.

    A run that fails, or that another process writes, does not stop the others. At the end of the
    time all runs write a checkpoint, and the same call goes on from there. Every session of a run
    is noted in the run's sessions.jsonl with `seconds`, `device_seconds` and `at_once`.

    Args:
        jobs: The runs, in the order in which they are to begin.
        device: Where all of them compute.
        at_once: Runs at a time; fewer where the device's memory does not hold them.
        seconds: Length of the session; runs that are expected to end in it begin first.
        watch: Told how the session stands.

    Returns:
        How every run ended that was not done before, by folder.

    Raises:
        ValueError: A configuration asks for another device, or `at_once` or `seconds` is not
            allowed; or the device is not there.
        DiskFullError: The disk is full; the same call goes on.
        Interrupted: SIGINT or SIGTERM came; the same call goes on.
    """
    runtime = _check(jobs, device, at_once, seconds)
    board = Board(jobs, at_once=at_once, seconds=seconds)
    seats = [Seat(board.stop) for _ in range(min(at_once, len(board.accounts)))]
    faults: list[BaseException] = []
    threads = [
        threading.Thread(target=_sit, args=(seat, board, runtime, faults), daemon=True)
        for seat in seats
    ]
    with stop_requests() as asked:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            next(thread for thread in threads if thread.is_alive()).join(0.1)
            board.stop.requested |= asked.requested or board.left <= 0 or bool(faults)
            if watch is not None:
                watch(board, tuple(seat.taken for seat in seats))
    if faults:
        raise faults[0]
    asked.check()
    return board.accounts


def _check(
    jobs: Sequence[Job[CurriculumConfig]], device: Device, at_once: int, seconds: float | None
) -> Runtime:
    if at_once < 1:
        raise ValueError(f"at_once: got {at_once}, allowed are whole numbers >= 1")
    if seconds is not None and not seconds > 0:
        raise ValueError(f"seconds: got {seconds}, allowed are numbers > 0")
    for job in jobs:
        if job.config.device != device:
            raise ValueError(f"device: got {device!r} for a run with device={job.config.device!r}")
        if job.config.deterministic and at_once > 1:
            raise ValueError(
                f"at_once: got {at_once} with a deterministic run, whose switch is the whole "
                "process's; allowed is 1"
            )
    return Runtime.of(device, "float32")


def _sit(
    seat: Seat, board: Board[CurriculumConfig], runtime: Runtime, faults: list[BaseException]
) -> None:
    """Carry out one run after the other in this thread."""
    on_gpu = runtime.device.type == "cuda"
    try:
        with contextlib.ExitStack() as stack:
            if on_gpu:
                stack.enter_context(torch.cuda.stream(torch.cuda.Stream()))
                seat.feeder = stack.enter_context(contextlib.closing(Feeder()))
            while (job := board.take()) is not None:
                _carry_out(job, seat, board)
                if on_gpu:
                    _release(runtime)
    except BaseException as fault:  # noqa: BLE001 - the thread that waits for this one raises it
        faults.append(fault)


def _carry_out(job: Job[CurriculumConfig], seat: Seat, board: Board[CurriculumConfig]) -> None:
    try:
        run_curriculum(job.config, job.folder, seat=seat)
    except Interrupted:
        board.end(job, "stopped")
    except LockedError:
        board.end(job, "busy")
        return
    except DiskFullError:
        board.end(job, "stopped")
        raise
    except Exception as error:  # noqa: BLE001 - one run's fault, whatever it is, spares the others
        if _out_of_memory(error) and board.put_back(job):
            return
        board.end(job, "failed", said(error))
    else:
        board.end(job, "done")
    note_session(job.folder, board.accounts[job.folder], at_once=board.at_once)


def note_session(folder: Path, account: Account, *, at_once: int) -> None:
    """Note in a run's sessions.jsonl what a session has cost.

    Args:
        folder: The run's folder; nothing is noted where it is missing.
        account: Where the run stands at the end of the session.
        at_once: Runs that shared the device.
    """
    path = folder / SESSIONS
    if account.seconds and folder.is_dir():
        drop_torn_line(path)
        append_line(
            path,
            {
                "seconds": account.seconds,
                "device_seconds": account.device_seconds,
                "at_once": at_once,
            },
        )


def _release(runtime: Runtime) -> None:
    """Give the memory of a run that has ended back to the others."""
    with runtime.alone():
        gc.collect()
        torch.cuda.empty_cache()


def _out_of_memory(error: BaseException | None) -> bool:
    # What ends a recording that ran out of memory comes after the error that says so.
    while error is not None and not isinstance(error, torch.OutOfMemoryError):
        error = error.__context__
    return error is not None
