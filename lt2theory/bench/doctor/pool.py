"""A few worker processes with a time limit a job, so that a hang or a crash costs only its job."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_UP = 120.0
"""Seconds that importing may take, once a process."""
DOCTOR = "lt2theory.bench.doctor.worker"
"""The module that does the doctor's jobs."""

ROOT = Path(__file__).resolve().parents[3]
"""The folder that this package is imported from, for processes to import the same one."""

Job = dict[str, Any]
Answer = dict[str, Any]


@dataclass(frozen=True)
class Died:
    """What became of a process that did not answer.

    Attributes:
        reason: How it ended, in one line.
        hung: Whether it was stopped at its limit; otherwise it ended by itself.
    """

    reason: str
    hung: bool


def run_jobs(
    jobs: Iterable[Job],
    settings: Mapping[str, Any],
    *,
    workers: int,
    limit: float,
    environment: Mapping[str, str],
    suspect: Callable[[Answer], bool],
    module: str = DOCTOR,
) -> Generator[tuple[Job, Answer | Died], None, None]:
    """Have jobs done in other processes.

    Args:
        jobs: What to do, as `module` reads it; see `worker.answer` for the doctor's.
        settings: What a worker process is told; the doctor's `device`, `imports` and `pinned`.
        workers: Processes at a time.
        limit: Seconds that one job may take before its process is killed.
        environment: Variables for the processes, besides those of this one; where they look for
            modules begins with `ROOT`.
        suspect: Whether an answer casts doubt on its process; the process is then replaced.
        module: What a process runs (`python -m`): a line when it is ready, then one a job.

    Yields:
        Every job with its answer, in the order in which they end.

    Raises:
        RuntimeError: If a process ends before it can take a job.
    """
    waiting = deque(jobs)
    active: list[_Worker] = []
    try:
        while waiting or active:
            busy = sum(worker.job is not None for worker in active)
            while len(active) < min(workers, busy + len(waiting)):
                active.append(_Worker(module, settings, environment, limit))
            for worker in _wait(active):
                result = worker.result()
                if result is not None:
                    yield worker.finish(), result
                    if isinstance(result, dict) and suspect(result):
                        worker.close()
                if worker.is_idle and waiting:
                    worker.give(waiting.popleft())
                elif worker.is_idle:
                    worker.close()
            active = [worker for worker in active if not worker.closed]
    finally:
        for worker in active:
            worker.close()


def _wait(active: list["_Worker"]) -> list["_Worker"]:
    """The workers that have said something, ended, or passed their deadline."""
    with selectors.DefaultSelector() as selector:
        for worker in active:
            selector.register(worker.answers, selectors.EVENT_READ, worker)
        left = min(worker.deadline for worker in active) - time.monotonic()
        ready = [key.data for key, _ in selector.select(max(0.0, left))]
    now = time.monotonic()
    return ready + [w for w in active if w not in ready and now >= w.deadline]


class _Worker:
    """One process, the job that it is at, and until when."""

    def __init__(
        self,
        module: str,
        settings: Mapping[str, Any],
        environment: Mapping[str, str],
        limit: float,
    ) -> None:
        self.job: Job | None = None
        self.is_ready = False
        self.closed = False
        self.last_words = f"no sign of life for {START_UP:g} s"
        self.deadline = time.monotonic() + START_UP
        self._limit = limit
        self._said = b""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the worker
        command = [sys.executable, "-m", module, json.dumps(settings)]
        search = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(search), **environment},
            start_new_session=True,
        )
        assert self._process.stdout is not None
        self.answers = self._process.stdout

    @property
    def is_idle(self) -> bool:
        """Whether it waits for a job."""
        return self.is_ready and self.job is None and not self.closed

    def give(self, job: Job) -> None:
        """Let it do a job; the clock starts."""
        assert self._process.stdin is not None
        self.job = job
        self.deadline = time.monotonic() + self._limit
        # Where the process has ended already, reading from it will tell.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write((json.dumps(job) + "\n").encode())
            self._process.stdin.flush()

    def finish(self) -> Job:
        """Take back the job that it was at.

        Returns:
            The job.

        Raises:
            RuntimeError: If it had none: it did not become ready, and no other would.
        """
        if self.job is None:
            raise RuntimeError(f"a process for jobs did not start: {self.last_words}")
        job, self.job = self.job, None
        return job

    def result(self) -> Answer | Died | None:
        """What has come: an answer, the end, or nothing to speak of yet."""
        if time.monotonic() >= self.deadline:
            self.close()
            return Died(f"hung after {self._limit:g} s", hung=True)
        said = os.read(self.answers.fileno(), 1 << 16)
        if not said:
            return self._end()
        self._said += said
        if not self._said.endswith(b"\n"):
            return None
        answer: Answer = json.loads(self._said)
        self._said = b""
        if self.is_ready:
            return answer
        self.is_ready = True
        return None

    def _end(self) -> Died:
        """Why the process ended by itself."""
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").split("\n")
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        how = f"exit code {code}" if code >= 0 else f"signal {_signal_name(-code)}"
        self.close()
        self.last_words = f"the process ended with {how}{': ' if last else ''}{last[:200]}"
        return Died(self.last_words, hung=False)

    def close(self) -> None:
        """End the process and whatever it started; calling it again changes nothing."""
        if self.closed:
            return
        self.closed = True
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def _signal_name(number: int) -> str:
    """SIGSEGV for 11."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
