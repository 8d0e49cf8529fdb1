"""Runs as an array of SLURM jobs, by submitit; those whose job dies or runs out of time go on.

Submitit keeps what it sends and receives, as pickles, and the logs in the folder `slurm` beside the
runs: whoever may write there may run code in the jobs and in the process that waits for them.
"""

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from typing_extensions import override

from lt2theory.runs.executors.base import (
    Assignment,
    Ending,
    Executor,
    RunOne,
    attempt_anywhere,
    check_amounts,
    extra,
    said,
)

JOBS = "slurm"
"""The folder of the jobs, in the study's."""
ARRAY_SIZE = 500
"""Most jobs of an array; clusters allow 1001 by default."""


@dataclass(frozen=True)
class _Job:
    """What one job does; submitit calls `checkpoint` before SLURM takes the node away."""

    run_one: RunOne
    assignment: Assignment
    threads: int

    def __call__(self) -> Ending:
        return attempt_anywhere(self.run_one, self.assignment, self.threads)

    def checkpoint(self) -> Any:
        return extra("submitit").helpers.DelayedSubmission(self)


class SlurmExecutor(Executor):
    """A job a run; a run whose job ends without a word is sent again.

    A job that SLURM ends for its time, or preempts, is queued again and goes on from its last
    checkpoint.

    Args:
        cluster: `slurm`, or `local` for processes of this machine, all at once.
        cpus: Cores of a job, which are also the run's threads.
        gpus: GPUs of a job.
        minutes: Time of a job.
        at_once: Most jobs at a time.
        retries: How often a run is sent or queued again.
        options: Further options of sbatch, such as `{"partition": "gpu"}`.
        poll: Seconds between two looks at the jobs.

    Raises:
        ValueError: A number is not allowed.
    """

    def __init__(
        self,
        *,
        cluster: Literal["slurm", "local"] = "slurm",
        cpus: int = 1,
        gpus: int = 0,
        minutes: int = 60,
        at_once: int = 64,
        retries: int = 3,
        options: dict[str, Any] | None = None,
        poll: float = 2.0,
    ) -> None:
        check_amounts(cpus=cpus, gpus=gpus, at_once=at_once, retries=retries)
        if minutes < 1:
            raise ValueError(f"minutes: got {minutes}, allowed are whole numbers >= 1")
        self.cluster = cluster
        self.cpus = cpus
        self.gpus = gpus
        self.minutes = minutes
        self.at_once = at_once
        self.retries = retries
        self.options = options or {}
        self.poll = poll

    @property
    @override
    def share(self) -> float:
        return float(self.gpus or 1)

    @override
    def carry_out(
        self, run_one: RunOne, assignments: Sequence[Assignment]
    ) -> Generator[Ending, None, None]:
        if not assignments:
            return
        submitit = extra("submitit")
        executor = self._prepared(submitit, assignments)
        waiting: dict[Any, tuple[_Job, int]] = {}
        try:
            jobs = [_Job(run_one, each, self.cpus) for each in assignments]
            for first in range(0, len(jobs), ARRAY_SIZE):
                part = jobs[first : first + ARRAY_SIZE]
                sent = executor.submit_array(part)
                waiting |= {handle: (job, 1) for handle, job in zip(sent, part, strict=True)}
            while waiting:
                for handle in [handle for handle in waiting if handle.done()]:
                    job, attempts = waiting[handle]
                    ending, died = _ending(submitit, handle, job.assignment, attempts)
                    del waiting[handle]
                    if died and attempts <= self.retries:
                        waiting[executor.submit(job)] = job, attempts + 1
                    else:
                        yield ending
                time.sleep(self.poll if waiting else 0)
        finally:
            for handle in waiting:
                handle.cancel(check=False)

    def _prepared(self, submitit: Any, assignments: Sequence[Assignment]) -> Any:
        folder = assignments[0].folder.parent / JOBS / "%j"
        try:
            executor = submitit.AutoExecutor(
                folder=folder, cluster=self.cluster, slurm_max_num_timeout=self.retries
            )
        except RuntimeError as error:
            raise ValueError(f"executor: no SLURM on this machine ({error})") from error
        executor.update_parameters(
            name="lt2theory",
            nodes=1,
            tasks_per_node=1,
            cpus_per_task=self.cpus,
            gpus_per_node=self.gpus,
            timeout_min=self.minutes,
            slurm_array_parallelism=self.at_once,
            slurm_additional_parameters=self.options,
            stderr_to_stdout=True,
        )
        return executor


def _ending(
    submitit: Any, handle: Any, assignment: Assignment, attempts: int
) -> tuple[Ending, bool]:
    """How a job has ended, and whether it did so without a word."""
    try:
        ending: Ending = handle.result()
    except submitit.core.utils.FailedJobError as error:
        return Ending(assignment.folder, said(error), attempts=attempts), False
    except submitit.core.utils.UncompletedJobError as error:
        fault = f"its job died, for the last time by {said(error)}"
        return Ending(assignment.folder, fault, attempts=attempts), True
    return replace(ending, attempts=attempts), False
