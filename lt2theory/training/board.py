"""Which of many runs comes next, in the time that is left, and what each has cost."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Literal, TypeVar

from lt2theory.runs import run_status
from lt2theory.training.signals import StopRequest

LEAST_SECONDS = 20.0
"""Time for which a job is worth beginning that will not end in it."""

State = Literal["waiting", "running", "done", "stopped", "failed", "busy"]

Turn = Literal["now", "later", "never"]
"""Whether a job may begin: `later`, once another process has done what it needs."""
POLL_SECONDS = 1.0
"""Between two looks at what other processes have done."""


Config = TypeVar("Config")
"""What a kind of run is told."""


@dataclass(frozen=True)
class Job(Generic[Config]):
    """A run to be carried out.

    Attributes:
        config: The run.
        folder: Its folder.
        seconds: How long it is expected to take beside the others; None if nobody knows.
    """

    config: Config
    folder: Path
    seconds: float | None = None


@dataclass
class Account:
    """Where a job stands while `share_device` runs.

    Attributes:
        state: `waiting` (not begun, or to be begun again), `running`, `done`, `stopped` (a
            checkpoint is written and the next session goes on), `failed`, or `busy` (another
            process writes its folder).
        message: Why it failed.
        seconds: Time on the clock.
        device_seconds: Its part of the device's time: each moment divided by the runs that shared
            it.
    """

    state: State = "waiting"
    message: str = ""
    seconds: float = 0.0
    device_seconds: float = 0.0


class Board(Generic[Config]):
    """Hands out jobs to threads.

    First comes the first job that is expected to end in the time that is left. One that has begun
    before, or of which nobody knows how long it takes, counts as such; so does one that is longer
    than the whole session, in its first half. Where there is none, the first of the others begins
    all the same while `LEAST_SECONDS` are left: the next session goes on with it. Jobs whose turn
    is not `now` are passed over; while some may have it `later` and nothing else is left, it waits.

    Args:
        jobs: The jobs in the order of their wish; those that have begun before come first.
        at_once: Most jobs at a time.
        seconds: Length of the session; None for as long as it takes.
        turn: Whether a job may begin, asked each time; None lets all begin.

    Attributes:
        at_once: Most jobs at a time, as far as memory has allowed.
        stop: The request to stop that all runs heed.
        accounts: One for each job that was not done before, by folder.
    """

    def __init__(
        self,
        jobs: Sequence[Job[Config]],
        *,
        at_once: int,
        seconds: float | None,
        turn: Callable[[Job[Config]], Turn] | None = None,
    ) -> None:
        self.stop = StopRequest()
        waiting = [job for job in jobs if run_status(job.folder) != "done"]
        self._begun = {job.folder for job in waiting if run_status(job.folder) == "unfinished"}
        self._waiting = sorted(waiting, key=lambda job: job.folder not in self._begun)
        self.accounts = {job.folder: Account() for job in waiting}
        self.at_once = at_once
        self._seconds = seconds
        self._turn = turn
        self._start = self._clock = time.monotonic()
        self._change = threading.Condition()

    @property
    def left(self) -> float:
        """Seconds left, without end where the session has none."""
        return float("inf") if self._seconds is None else self._seconds - self.passed

    @property
    def passed(self) -> float:
        """Seconds since the session began."""
        return time.monotonic() - self._start

    def running(self) -> int:
        """Number of jobs that go on now."""
        return len(self._running())

    def take(self) -> Job[Config] | None:
        """The next job, which is now running.

        Returns:
            A job; None if there is nothing more to begin. It waits where fewer jobs than `at_once`
            fit into memory.
        """
        with self._change:
            while not self.stop.requested:
                ready, hope = self._ready()
                job = next((job for job in ready if self._fits(job)), None)
                if job is None and ready and self.left >= LEAST_SECONDS:
                    job = ready[0]
                if job is None and hope and self.left >= LEAST_SECONDS:
                    self._change.wait(POLL_SECONDS)
                    continue
                if job is None:
                    return None
                if self.running() < self.at_once:
                    self._waiting.remove(job)
                    self._count_time()
                    self.accounts[job.folder].state = "running"
                    return job
                self._change.wait(0.2)
            return None

    def end(self, job: Job[Config], state: State, message: str = "") -> None:
        """Note how a job has ended.

        Args:
            job: The job.
            state: How.
            message: Why, if it failed.
        """
        with self._change:
            self._count_time()
            account = self.accounts[job.folder]
            account.state, account.message = state, message
            self._change.notify_all()

    def put_back(self, job: Job[Config]) -> bool:
        """Let a job wait that found too little memory beside the others, and run fewer at once.

        Args:
            job: The job.

        Returns:
            Whether that may help: it was not alone.
        """
        with self._change:
            others = self.running() - 1
            if others < 1:
                return False
            self._count_time()
            self.at_once = min(self.at_once, others)
            self.accounts[job.folder].state = "waiting"
            self._begun.add(job.folder)
            self._waiting.insert(0, job)
            return True

    def _running(self) -> list[Account]:
        return [account for account in self.accounts.values() if account.state == "running"]

    def _count_time(self) -> None:
        now = time.monotonic()
        passed, self._clock = now - self._clock, now
        running = self._running()
        for account in running:
            account.seconds += passed
            account.device_seconds += passed / len(running)

    def _ready(self) -> tuple[list[Job[Config]], bool]:
        """Waiting jobs that may begin now, and whether others may later."""
        if self._turn is None:
            return self._waiting, False
        turns = [(job, self._turn(job)) for job in self._waiting]
        ready = [job for job, turn in turns if turn == "now"]
        return ready, any(turn == "later" for _, turn in turns)

    def _fits(self, job: Job[Config]) -> bool:
        if self._seconds is None or job.seconds is None or job.folder in self._begun:
            return True
        if job.seconds > self._seconds:
            return self.left >= self._seconds / 2
        return job.seconds <= self.left
