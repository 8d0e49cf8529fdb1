"""Runs on this machine: in this process, or in several by joblib."""

import os
from collections.abc import Generator, Sequence
from functools import partial

import joblib
from typing_extensions import override

from lt2theory.runs.executors.base import Assignment, Ending, Executor, RunOne, attempt
from lt2theory.runs.orphans import ends_with


def threads_for(workers: int) -> int:
    """Threads a run may use so that all runs together do not exceed the cores.

    Args:
        workers: Runs at a time.

    Returns:
        At least 1.

    Raises:
        ValueError: More workers than cores, or fewer than one.
    """
    cores = joblib.cpu_count()
    if not 1 <= workers <= cores:
        raise ValueError(f"workers: got {workers}, allowed 1..{cores} (the cores of this machine)")
    return int(cores // workers)


class LocalExecutor(Executor):
    """One worker is this process, where an interrupt lets the run write a checkpoint.

    Args:
        workers: Runs at a time; each gets its share of the cores as threads.

    Raises:
        ValueError: More workers than cores, or fewer than one.
    """

    def __init__(self, workers: int = 1) -> None:
        self._threads = threads_for(workers)
        self.workers = workers

    @property
    @override
    def share(self) -> float:
        return 1 / self.workers

    @override
    def carry_out(
        self, run_one: RunOne, assignments: Sequence[Assignment]
    ) -> Generator[Ending, None, None]:
        if self.workers == 1:
            for assignment in assignments:
                yield attempt(run_one, assignment, self._threads)
            return
        child = partial(_attempt_in_child, parent=os.getpid())
        jobs = (joblib.delayed(child)(run_one, each, self._threads) for each in assignments)
        with joblib.parallel_config(backend="loky", inner_max_num_threads=self._threads):
            parallel = joblib.Parallel(n_jobs=self.workers, return_as="generator_unordered")
            yield from parallel(jobs)


def _attempt_in_child(
    run_one: RunOne, assignment: Assignment, threads: int, *, parent: int
) -> Ending:
    with ends_with(parent):
        return attempt(run_one, assignment, threads)
