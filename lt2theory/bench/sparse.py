"""Speed and memory of the sparse attentions on a GPU, beside dense masks and their floors.

DeepSeek sparse attention has to score every key for every query: that share of the time grows with
the square of the length and is measured on its own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import pandas as pd
import torch
from torch import Tensor

from lt2theory.bench.rates import copy_rate, product_rate, require_cuda, warm_ms
from lt2theory.bench.rows import OnRow, unheard
from lt2theory.ops.sparse.dsa import explain_indexed_attention
from lt2theory.ops.sparse.dsa_reference import IndexedProblem
from lt2theory.ops.sparse.index_launch import (
    Indexer,
    blocks_of,
    choose,
    new_order,
    new_thresholds,
    score,
)
from lt2theory.ops.sparse.nsa import explain_block_attention
from lt2theory.ops.sparse.nsa_reference import BlockSparseProblem

Op = Literal["dsa", "nsa"]
Problem = IndexedProblem | BlockSparseProblem

HEADS, KEY_WIDTH, VALUE_WIDTH = 16, 96, 192
"""Of LT2's 1.3B model, a key head for each query head."""
INDEX_HEADS, INDEX_WIDTH, TOP_K = 8, 64, 2048
BLOCK_SIZE, NUM_BLOCKS, WINDOW = 64, 16, 512
DTYPES = {"bfloat16": torch.bfloat16, "float32": torch.float32}


@dataclass(frozen=True)
class Setting:
    """One attention that is measured.

    Attributes:
        op: `dsa` or `nsa`.
        length: Queries and keys.
        dtype: A key of `DTYPES`.
    """

    op: Op
    length: int
    dtype: str = "bfloat16"


def bench_sparse(
    settings: list[Setting],
    *,
    backends: tuple[str, ...] = ("triton", "reference"),
    repeats: int = 5,
    on_row: OnRow = unheard,
) -> pd.DataFrame:
    """Time forward, and forward with backward, of one row of text at the sizes of the 1.3B model.

    Args:
        settings: What to measure.
        backends: Names of backends.
        repeats: Runs after one to warm up; the median counts.
        on_row: Told of every row as it is measured.

    Returns:
        One row a setting and backend: op, length, dtype, backend, forward_ms, both_ms, peak_mib
        (added by forward and backward), score_ms and choose_ms (the indexer's part of forward,
        NaN but for `dsa` with `triton`), indexer_share of forward, forward_floor_ms and
        both_floor_ms (the larger of FLOPs over the measured rate of a product in bfloat16, and
        bytes over that of a copy), and forward_gain and both_gain over `reference`. NaN where
        memory did not suffice, or a gain has no reference.

    Raises:
        ValueError: There is no CUDA device.
    """
    require_cuda("sparse")
    rates = (product_rate(), copy_rate())
    rows = []
    for setting in settings:
        floors = {
            f"{name}_floor_ms": 1e3 * max(x / y for x, y in zip(work, rates, strict=True))
            for name, work in (("forward", work_of(setting)), ("both", work_of(setting, both=True)))
        }
        timed = {name: _measure(setting, name, repeats) for name in backends}
        dense = timed.get("reference", {})
        for name, times in timed.items():
            gains = {
                f"{part}_gain": dense.get(f"{part}_ms", torch.nan) / times[f"{part}_ms"]
                for part in ("forward", "both")
            }
            rows.append({**vars(setting), "backend": name, **times, **floors, **gains})
            on_row(rows[-1])
    return pd.DataFrame(rows)


def work_of(setting: Setting, *, both: bool = False) -> tuple[float, float]:
    """FLOPs and bytes that cannot be avoided.

    Products of queries with the keys that they read, and of probabilities with values; `dsa` scores
    every earlier key too. Inputs are read and outputs written once. Backward multiplies five times
    (scores, gradients of probabilities, queries, keys, values) where forward does twice.

    Args:
        setting: The attention.
        both: Forward and backward, not forward alone.

    Returns:
        FLOPs and bytes.
    """
    length, pair = setting.length, KEY_WIDTH + VALUE_WIDTH
    if setting.op == "dsa":
        read = _seen(length, TOP_K)
        index = INDEX_HEADS * INDEX_WIDTH * _seen(length, length)
        extra = INDEX_HEADS * (INDEX_WIDTH + 1) + INDEX_WIDTH
    else:
        complete = sum(t // BLOCK_SIZE for t in range(1, length + 1))
        read = complete + _seen(length, NUM_BLOCKS * BLOCK_SIZE) + _seen(length, WINDOW)
        index, extra = 0, 3 * HEADS
    multiplied = HEADS * (pair + (3 * KEY_WIDTH + 2 * VALUE_WIDTH if both else 0)) * read + index
    numbers = length * (2 * HEADS * pair * (2 if both else 1) + extra)
    return 2.0 * multiplied, 1.0 * numbers * DTYPES[setting.dtype].itemsize


def _seen(length: int, most: int) -> int:
    """Pairs of a query and an earlier key or its own, at most so many a query."""
    full = min(length, most)
    return full * (full + 1) // 2 + (length - full) * most


def problem_of(setting: Setting) -> Problem:
    """Random inputs on the GPU whose queries, keys and values want gradients.

    Args:
        setting: The attention.

    Returns:
        The attention.
    """
    rng = torch.Generator("cuda").manual_seed(0)

    def draw(*size: int) -> Tensor:
        return torch.randn(
            1, setting.length, *size, generator=rng, device="cuda", dtype=DTYPES[setting.dtype]
        )

    q, k, v = (draw(HEADS, width) for width in (KEY_WIDTH, KEY_WIDTH, VALUE_WIDTH))
    q, k, v = (x.requires_grad_() for x in (q, k, v))
    scale = KEY_WIDTH**-0.5
    if setting.op == "nsa":
        gates = draw(HEADS, 3).sigmoid()
        return BlockSparseProblem(
            *(q, k, v),
            window=WINDOW,
            scale=scale,
            query_segments=None,
            key_segments=None,
            gates=gates,
            block_size=BLOCK_SIZE,
            num_blocks=NUM_BLOCKS,
        )
    return IndexedProblem(
        *(q, k, v),
        window=None,
        scale=scale,
        query_segments=None,
        key_segments=None,
        index_q=draw(INDEX_HEADS, INDEX_WIDTH),
        index_k=draw(INDEX_WIDTH),
        index_weight=draw(INDEX_HEADS),
        top_k=TOP_K,
    )


def runner_of(problem: Problem, backend: str) -> Callable[[], Tensor]:
    """The forward pass of an attention.

    Args:
        problem: The attention.
        backend: Name of a backend.

    Returns:
        A run of it.
    """
    if isinstance(problem, IndexedProblem):
        indexed = explain_indexed_attention(problem, backend=backend).backend.load().attend
        return lambda: indexed(problem)
    blocks = explain_block_attention(problem, backend=backend).backend.load()
    return lambda: blocks(problem)


def _measure(setting: Setting, backend: str, repeats: int) -> dict[str, float]:
    """Times and memory of one backend; NaN where memory does not suffice."""
    names = ("forward_ms", "both_ms", "peak_mib", "score_ms", "choose_ms", "indexer_share")
    found = dict.fromkeys(names, torch.nan)
    torch.cuda.empty_cache()
    problem = problem_of(setting)
    forward = runner_of(problem, backend)
    inputs = [problem.q, problem.k, problem.v]
    gradient = torch.ones_like(problem.v)
    try:
        with torch.no_grad():
            found["forward_ms"] = warm_ms(forward, repeats)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        both = warm_ms(lambda: torch.autograd.grad(forward(), inputs, gradient), repeats)
        found |= {"both_ms": both, "peak_mib": _peak_mib(before)}
        if setting.op == "dsa" and backend == "triton" and setting.length > TOP_K:
            found |= _indexer(problem, found["forward_ms"], repeats)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
    return found


def _peak_mib(before: int) -> float:
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def _indexer(problem: Problem, forward: float, repeats: int) -> dict[str, float]:
    """Milliseconds of scores and choice, and their share of the forward pass."""
    assert isinstance(problem, IndexedProblem)
    indexer = Indexer.of(problem)
    order, thresholds = new_order(indexer), new_thresholds(indexer)

    def run(*, choosing: bool) -> None:
        for start, stop in blocks_of(indexer):
            block = score(indexer, start, stop, order)
            if choosing:
                choose(indexer, block, thresholds)

    scores, both = (warm_ms(partial(run, choosing=x), repeats) for x in (False, True))
    return {"score_ms": scores, "choose_ms": both - scores, "indexer_share": both / forward}
