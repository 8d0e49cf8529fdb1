"""Speed of the task generators, beside per-example generators in the style of public suites."""

import itertools
import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import pandas as pd
from jaxtyping import Int64

import tasks

# What the whole project promises, in examples a second on two cores.
TARGETS = {"mqar": 100_000, "group_word": 500_000}


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
            kinds = ("per_example", "batch") if workload.task in NAIVE else ("batch",)
            for kind in kinds:
                rows.append(_timed(pool, workload, kind, seconds, workers, size))
    table = pd.DataFrame(rows)
    naive = table[table.generator == "per_example"].set_index("task").examples_per_s
    table["gain"] = table.examples_per_s / table.task.map(naive)
    promised = table.task.map(TARGETS).astype(float)
    table["target"] = promised.where(table.generator == "batch")
    return table


def naive_mqar(
    rng: np.random.Generator, length: int, pairs: int, vocab: int
) -> tuple[Int64[np.ndarray, "length"], Int64[np.ndarray, "length"]]:
    """One example of multi-query recall, drawn by itself.

    Args:
        rng: Source of randomness.
        length: Sequence length.
        pairs: Key-value pairs.
        vocab: Vocabulary size.

    Returns:
        Inputs and targets.
    """
    keys = rng.choice(np.arange(1, vocab // 2), pairs, replace=False)
    values = rng.choice(np.arange(vocab // 2, vocab), pairs, replace=False)
    room = (length - 2 * pairs) // 2
    weights = np.arange(1, room + 1) ** -0.99
    slots = rng.permutation(rng.choice(room, pairs, replace=False, p=weights / weights.sum()))
    inputs = np.zeros(length, dtype=np.int64)
    targets = np.full(length, -100, dtype=np.int64)
    inputs[0 : 2 * pairs : 2], inputs[1 : 2 * pairs : 2] = keys, values
    inputs[2 * pairs + 2 * slots] = keys
    targets[2 * pairs + 2 * slots] = values
    return inputs, targets


def naive_word(
    rng: np.random.Generator, length: int, points: int
) -> tuple[Int64[np.ndarray, "length"], Int64[np.ndarray, "length"]]:
    """One example of the word problem of S_n, permutations composed one by one.

    Args:
        rng: Source of randomness.
        length: Sequence length.
        points: n.

    Returns:
        Inputs and targets.
    """
    elements, index = _symmetric_group(points)
    word = rng.integers(len(elements), size=length)
    state, products = elements[0], []
    for letter in word:
        token = elements[letter]
        state = tuple(token[point] for point in state)
        products.append(index[state])
    return word.astype(np.int64), np.array(products, dtype=np.int64)


@lru_cache
def _symmetric_group(points: int) -> tuple[list[tuple[int, ...]], dict[tuple[int, ...], int]]:
    """All permutations and the place of each."""
    elements = list(itertools.permutations(range(points)))
    return elements, {element: i for i, element in enumerate(elements)}


NAIVE: dict[str, Callable[[np.random.Generator, int], object]] = {
    "mqar": lambda rng, stage: naive_mqar(rng, 4 * stage, stage, 8192),
    "group_word": lambda rng, stage: naive_word(rng, stage, 5),
}


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
