"""A training step on a CPU, eager and compiled, and the operations it spends its time on."""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pandas as pd
import torch
from torch.profiler import ProfilerActivity, profile

from lt2theory.bench.train_step import CACHES
from lt2theory.bench.turns import take_turns
from lt2theory.experiments.recipes import word_problem
from lt2theory.models import LoopedConfig
from lt2theory.training import CurriculumConfig, Runtime, resolve, torch_threads
from lt2theory.training.draws import training_batch
from lt2theory.training.selection import new_model
from lt2theory.training.stepper import Stepper, make_stepper
from tasks import Batch

LARGEST_SHARES = 6
"""Operations named in a row."""


def workloads() -> dict[str, CurriculumConfig]:
    """What is trained.

    Returns:
        By name: the recipe of S3 (both loop states), and wider toys on longer words, of the delta
        rule with decay and convolution and of softmax attention.
    """
    recipes = {f"S3 {state}": word_problem(loop_state=state) for state in ("rescan", "accumulate")}
    long = recipes["S3 rescan"].model_copy(update={"stages": (128,), "batch_size": 16})
    for pattern in ("gdn", "full"):
        model = LoopedConfig(pattern=pattern, num_layers=2, num_loops=2)
        recipes[f"{pattern} 128"] = long.model_copy(update={"model": model})
    return {name: resolve(config) for name, config in recipes.items()}


def bench_train_step_cpu(
    *, repeats: int = 20, threads: int = 1, names: tuple[str, ...] = ()
) -> pd.DataFrame:
    """Time eager and compiled steps that take turns.

    Args:
        repeats: Turns; the fastest and the median count.
        threads: Threads of a tensor operation.
        names: Keys of `workloads`; none means all.

    Returns:
        One row a workload and way: `ms` (fastest), `median_ms`, `start_s` (the first step, with no
        code on disk; the first workload pays for torch's own start as well), `gain` (eager over
        this, of the medians), `pays_after` (steps after which a compiled run is ahead, of the
        medians; None for never) and `shares`, the largest parts of the time by torch operation.
    """
    chosen = {name: workloads()[name] for name in names or workloads()}
    with torch_threads(threads):
        rows = [row for name, config in chosen.items() for row in _compare(name, config, repeats)]
    return pd.DataFrame(rows)


def _compare(name: str, config: CurriculumConfig, repeats: int) -> list[dict[str, object]]:
    task = config.task.create()
    batch = training_batch(task, config, config.stages[0], 0)
    ways = {"eager": False, "compiled": True}
    runs: dict[str, Callable[[], object]] = {}
    starts: dict[str, float] = {}
    with _empty_caches():
        for way, compiled in ways.items():
            stepper = _stepper(config.model_copy(update={"compile": compiled}))
            begin = time.perf_counter()
            _step(stepper, batch)
            starts[way] = time.perf_counter() - begin
            runs[way] = partial(_step, stepper, batch)
        times = take_turns(runs, repeats)
        shares = {way: _shares(run) for way, run in runs.items()}
    rows: list[dict[str, object]] = []
    for way in ways:
        saved = times["eager"][1] - times[way][1]
        spent = 1e3 * (starts[way] - starts["eager"])
        rows.append(
            {
                "workload": name,
                "way": way,
                "ms": times[way][0],
                "median_ms": times[way][1],
                "start_s": starts[way],
                "gain": times["eager"][1] / times[way][1],
                "pays_after": round(spent / saved) if way == "compiled" and saved > 0 else None,
                "shares": shares[way],
            }
        )
    return rows


def _stepper(config: CurriculumConfig) -> Stepper:
    runtime = Runtime.of("cpu", "float32")
    return make_stepper(config, new_model(config, runtime), runtime)


def _step(stepper: Stepper, batch: Batch) -> None:
    stepper.take(batch, 1e-4)
    list(stepper.results())


def _shares(run: Callable[[], object]) -> str:
    """Largest shares of the time, such as `bmm 28 %, mm 26 %`; compiled kernels count as one."""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        for _ in range(3):
            run()
    spent: dict[str, float] = {}
    for event in seen.key_averages():
        kernel = "CompiledFxGraph" in event.key
        name = "compiled kernels" if kernel else event.key.removeprefix("aten::")
        spent[name] = spent.get(name, 0.0) + event.self_cpu_time_total
    total = sum(spent.values())
    largest = sorted(spent, key=lambda name: -spent[name])[:LARGEST_SHARES]
    return ", ".join(f"{name} {100 * spent[name] / total:.0f} %" for name in largest)


@contextmanager
def _empty_caches() -> Iterator[None]:
    """Let torch.compile find nothing that an earlier process left, and leave nothing."""
    before = {name: os.environ.get(name) for name in CACHES}
    torch.compiler.reset()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(dict.fromkeys(CACHES, folder))
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
