"""Speed of the analysers: spectra of composed transitions beside dense ones, and a whole model."""

import os
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

import tasks
from lt2theory.analysis import correction_spectrum
from lt2theory.experiments.analyze import held_out, measure
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.training import torch_threads

WIDTH = 128
NUM_LOOPS = 4
OPERATORS = 8192

GAIN_TARGET = 150.0
"""How many times faster than dense product and SVD a spectrum is to be."""
SECONDS_TARGET = 10.0
"""Most seconds for a 4-layer model at length 512."""

DENSE_AT_ONCE = 128
"""Dense products together: 16 MiB of float64."""

MODELS = {
    "gdn, T = 2, accumulate": ("gdn", 2, "accumulate"),
    "gdn, T = 4, accumulate": ("gdn", 4, "accumulate"),
    "full,gdn, T = 4, rescan": ("full,gdn", 4, "rescan"),
    "window(64), T = 4, rescan": ("window(64)", 4, "rescan"),
}
"""Pattern, loops and loop state of the models that are analysed end to end."""

Result = TypeVar("Result")


class Timing(NamedTuple):
    """What one call took.

    Attributes:
        seconds: By the clock.
        cpu_seconds: Of the processor, in all threads.
    """

    seconds: float
    cpu_seconds: float


def bench_analysis(
    *,
    sample: int = 256,
    operators: int = OPERATORS,
    repeats: int = 5,
    threads: int = 1,
    length: int = 512,
) -> pd.DataFrame:
    """Time spectra beside dense product and SVD, and `lt2 analyze`'s work on whole models.

    Args:
        sample: Operators that the dense methods are timed on; the first ones.
        operators: Operators that `correction_spectrum` is timed on.
        repeats: Turns of the spectra, in which the methods alternate, after one to warm up; the
            fastest counts. The models get one turn.
        threads: Threads of torch, for every method of the spectra; the models have one.
        length: Tokens of the models' instances.

    Returns:
        One row a work and method: work, threads, method, operators (that were timed; 1 for a
        model), seconds, cpu_seconds (of all threads; more telling where the machine is busy, NaN
        for the SVD alone), microseconds (an operator), gain (over `dense product + SVD`, by
        operator), target (of the gain, or of the seconds), error (largest difference from the
        dense SVD's values, over the largest of them) and the load average of the last minute.
    """
    with torch_threads(threads):
        rows = [
            row
            for decay in ("no", "scalar", "vector")
            for row in _spectra(decay, sample, operators, repeats)
        ]
    with torch_threads(1):
        rows += [_model(name, length) for name in MODELS]
    return pd.DataFrame(rows)


def make_products(
    decay: str, count: int, *, seed: int = 0
) -> tuple[
    Float[Tensor, "n T d"],
    Float[Tensor, "n T"],
    Float[Tensor, "n T"] | Float[Tensor, "n T d"] | None,
]:
    """Random factors: unit keys, beta in (0, 2), log decays in (-1, 0), in float64.

    Args:
        decay: `no`, `scalar` or `vector`.
        count: Products.
        seed: Seed of the numbers.

    Returns:
        Keys, erase strengths and log decays.
    """
    generator = torch.Generator().manual_seed(seed)
    shape = (count, NUM_LOOPS, WIDTH)
    keys = torch.randn(shape, generator=generator, dtype=torch.float64)
    betas = 2 * torch.rand(shape[:2], generator=generator, dtype=torch.float64)
    shapes = {"no": None, "scalar": shape[:2], "vector": shape}
    chosen = shapes[decay]
    decays = None
    if chosen is not None:
        decays = -torch.rand(chosen, generator=generator, dtype=torch.float64)
    return F.normalize(keys, dim=-1), betas, decays


def dense_spectrum(
    keys: Float[Tensor, "n T d"],
    betas: Float[Tensor, "n T"],
    log_decays: Float[Tensor, "n T"] | Float[Tensor, "n T d"] | None,
) -> tuple[Float[Tensor, "n T"], float]:
    """The spectra as one would compute them without the theory.

    The transitions are formed as d x d matrices and multiplied, and LAPACK takes the singular
    values of the gate baseline less the product.

    Args:
        keys: Keys.
        betas: Erase strengths.
        log_decays: Logs of the decays, or None.

    Returns:
        The largest T singular values of each, and the seconds that the SVD alone took.
    """
    spent, parts = 0.0, []
    for start in range(0, len(keys), DENSE_AT_ONCE):
        part = slice(start, start + DENSE_AT_ONCE)
        decays = None if log_decays is None else log_decays[part].exp()
        difference = _dense_difference(keys[part], betas[part], decays)
        begin = time.perf_counter()
        parts.append(torch.linalg.svdvals(difference)[:, :NUM_LOOPS])
        spent += time.perf_counter() - begin
    return torch.cat(parts), spent


def _dense_difference(keys: Tensor, betas: Tensor, decays: Tensor | None) -> Tensor:
    """Return the gate baseline less the product of the transitions, `[n d d]`."""
    eye = torch.eye(keys.shape[-1], dtype=keys.dtype)
    product: Tensor | None = None
    baseline = torch.ones_like(keys[:, 0])
    for i in range(keys.shape[1]):
        key = keys[:, i]
        step = eye - betas[:, i, None, None] * key[:, :, None] * key[:, None, :]
        if decays is not None:
            decay = decays[:, i] if decays.ndim == keys.ndim else decays[:, i, None]
            step = step * decay[:, None, :]
            baseline = baseline * decay
        product = step if product is None else step @ product
    assert product is not None, "there is at least one factor"
    return torch.diag_embed(baseline) - product


def _spectra(decay: str, sample: int, operators: int, repeats: int) -> list[dict[str, object]]:
    """Return the rows of one kind of decay."""
    factors = make_products(decay, operators)
    few = tuple(None if x is None else x[:sample] for x in factors)
    keys, betas, decays = few
    assert keys is not None
    assert betas is not None
    dense_spectrum(keys[:DENSE_AT_ONCE], betas[:DENSE_AT_ONCE], _first(decays, DENSE_AT_ONCE))
    correction_spectrum(*factors)
    turns: dict[str, list[Timing]] = {"dense product + SVD": [], "correction_spectrum": []}
    alone = []
    for _ in range(repeats):
        (expected, svd_alone), spent = _timed(lambda: dense_spectrum(keys, betas, decays))
        turns["dense product + SVD"].append(spent)
        alone.append(Timing(svd_alone, float("nan")))
        values, spent = _timed(lambda: correction_spectrum(*factors))
        turns["correction_spectrum"].append(spent)
    error = ((values[:sample] - expected).abs().amax() / expected.amax()).item()
    dense, fast, svd = (
        min(found) for found in (turns["dense product + SVD"], turns["correction_spectrum"], alone)
    )
    nan = float("nan")
    timed = {
        "dense product + SVD": (dense, len(keys), nan, nan),
        "the SVD alone": (svd, len(keys), nan, nan),
        "correction_spectrum": (fast, operators, GAIN_TARGET, error),
    }
    return [
        {
            "work": f"spectra, {decay} decay, d = {WIDTH}, T = {NUM_LOOPS}",
            "threads": torch.get_num_threads(),
            "method": method,
            "operators": count,
            "seconds": spent.seconds,
            "cpu_seconds": spent.cpu_seconds,
            "microseconds": 1e6 * spent.seconds / count,
            "gain": dense.seconds / len(keys) / (spent.seconds / count),
            "target": target,
            "error": wrong,
            "load": os.getloadavg()[0],
        }
        for method, (spent, count, target, wrong) in timed.items()
    ]


def _model(name: str, length: int) -> dict[str, object]:
    """Return the row of one model, untrained, on a word problem of S_3."""
    pattern, num_loops, loop_state = MODELS[name]
    config = LoopedConfig.model_validate(
        {
            "vocab_size": 6,
            "num_layers": 4,
            "num_loops": num_loops,
            "pattern": pattern,
            "loop_state": loop_state,
        }
    )
    model = LoopedModel(config).double()
    task = tasks.create("group_word", group="S3")
    measure(model, task, held_out(task, 8, 2, 0))
    _, spent = _timed(lambda: measure(model, task, held_out(task, length, 16, 0)))
    return {
        "work": f"analysis, 4 layers, length {length}: {name}",
        "threads": torch.get_num_threads(),
        "method": "lt2 analyze, without the report",
        "operators": 1,
        "seconds": spent.seconds,
        "cpu_seconds": spent.cpu_seconds,
        "microseconds": float("nan"),
        "gain": float("nan"),
        "target": SECONDS_TARGET,
        "error": float("nan"),
        "load": os.getloadavg()[0],
    }


def _first(decays: Tensor | None, count: int) -> Tensor | None:
    return None if decays is None else decays[:count]


def _timed(run: Callable[[], Result]) -> tuple[Result, Timing]:
    """Return what a call gave and what it took."""
    begin, busy = time.perf_counter(), time.process_time()
    result = run()
    return result, Timing(time.perf_counter() - begin, time.process_time() - busy)
