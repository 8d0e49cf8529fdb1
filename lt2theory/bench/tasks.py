"""Speed of the task generators, beside per-example generators in the style of public suites."""

import itertools
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

import tasks
from lt2theory.bench.naive_tasks import NAIVE

# What the whole project promises, in examples a second on two cores.
TARGETS = {
    "mqar": 100_000,
    "group_word": 500_000,
    "p_hop": 100_000,
    "selective_copy": 100_000,
    "noisy_recall": 100_000,
    "needle": 100_000,
    "multi_hop_variables": 100_000,
    "dyck": 100_000,
    "modular_arithmetic": 100_000,
}


@dataclass(frozen=True)
class Workload:
    """One setting of a task whose generation is timed.

    Attributes:
        task: Name in the catalogue.
        stage: Stage.
        knobs: Knobs of the task.
    """

    task: str
    stage: int
    knobs: dict[str, object] = field(default_factory=dict)


_CHOSEN = (
    Workload("mqar", 64),
    Workload("group_word", 128),
    Workload("parity", 256),
    Workload("modular_addition", 128),
    Workload("pointer_swaps", 128),
    Workload("distance_probe", 128),
    Workload("state_based_recall", 64),
    Workload("state_based_recall", 64, {"supervision": "dense", "layout": "indexed"}),
    Workload("p_hop", 8),
    Workload("selective_copy", 256),
    Workload("noisy_recall", 128),
    Workload("needle", 512),
    Workload("multi_hop_variables", 8),
    Workload("dyck", 128),
    Workload("dyck", 128, {"question": "valid"}),
    Workload("modular_arithmetic", 128),
    Workload("modular_arithmetic", 66, {"brackets": True}),
)
WORKLOADS = (
    *_CHOSEN,
    *(
        Workload(name, tasks.create(name).stages[-1])
        for name in tasks.catalogue()
        if name not in {workload.task for workload in _CHOSEN}
    ),
)
"""What is timed: the settings of the targets, and every other task at its largest stage."""


def bench_tasks(
    *,
    seconds: float = 2.0,
    workers: int = 2,
    size: int = 2048,
    workloads: tuple[Workload, ...] = WORKLOADS,
) -> pd.DataFrame:
    """Time batches of the train split, every cost included, in parallel processes.

    A batch is counted when its int64 inputs and targets and its mask stand in the memory of the
    process that made it: drawing, hashing, the split filter and rendering are in the time. Where
    there is one, the per-example generator of the same data is timed in the same way.

    Args:
        seconds: Time for each row.
        workers: Processes that generate at once.
        size: Examples a batch.
        workloads: What to time.

    Returns:
        One row a workload and generator (`batch` or `per_example`): task, knobs, stage, length,
        size, workers, examples, seconds, examples_per_s, tokens_per_s, `gain` over the
        per-example generator (NaN where there is none), `target` (NaN where none is promised), and
        the load average of the last minute when the row began.
    """
    rows = []
    # Forking a process that runs BLAS or OpenMP threads is unsafe.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        for workload in workloads:
            naive = workload.task in NAIVE and not workload.knobs
            kinds = ("per_example", "batch") if naive else ("batch",)
            for kind in kinds:
                rows.append(_timed(pool, workload, kind, seconds, workers, size))
    table = pd.DataFrame(rows)
    setting = table.task + " " + table.knobs
    slow = table.generator == "per_example"
    table["gain"] = table.examples_per_s / setting.map(
        dict(zip(setting[slow], table.examples_per_s[slow], strict=True))
    )
    promised = table.task.map(TARGETS).astype(float)
    table["target"] = promised.where(table.generator == "batch")
    return table


def _timed(
    pool: ProcessPoolExecutor,
    workload: Workload,
    kind: str,
    seconds: float,
    workers: int,
    size: int,
) -> dict[str, object]:
    """One row of the table."""
    load = os.getloadavg()[0]
    # One short round first, so that imports and tables are not in the time.
    for span in (0.0, seconds):
        start = time.perf_counter()
        jobs = [pool.submit(_generate, workload, kind, w, span, size) for w in range(workers)]
        examples = sum(job.result() for job in jobs)
        elapsed = time.perf_counter() - start
    task = tasks.create(workload.task, **workload.knobs)
    length = task.sequence_length(workload.stage)
    return {
        "task": workload.task,
        "knobs": " ".join(f"{k}={v}" for k, v in task.knobs.items()),
        "stage": workload.stage,
        "generator": kind,
        "length": length,
        "size": size,
        "workers": workers,
        "examples": examples,
        "seconds": elapsed,
        "examples_per_s": examples / elapsed,
        "tokens_per_s": examples * length / elapsed,
        "load": load,
    }


def _generate(workload: Workload, kind: str, worker: int, seconds: float, size: int) -> int:
    """Generate until the time is over; returns the number of examples."""
    task = tasks.create(workload.task, **workload.knobs)
    rng = np.random.default_rng(worker)
    end = time.perf_counter() + seconds
    for index in itertools.count():
        if kind == "batch":
            task.batch(stage=workload.stage, seed=worker, index=index, size=size)
        else:
            # A tenth of a batch is enough to look at the clock rarely.
            for _ in range(max(1, size // 10)):
                NAIVE[workload.task](rng, workload.stage)
        if time.perf_counter() >= end:
            break
    per_round = size if kind == "batch" else max(1, size // 10)
    return (index + 1) * per_round
