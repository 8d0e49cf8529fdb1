"""Speed of the recurrences, beside token loops over the same numbers."""

import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pandas as pd
import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.bench.token_loops import tight_loop, token_loop
from lt2theory.bench.turns import both_ways, take_turns
from lt2theory.ops import Factors
from lt2theory.ops.chunked.recurrence import chunked_recurrence
from lt2theory.training import torch_threads

# The gain over `token_loop` that is promised at the size of `PAPER_SIZE`, by kind of decay.
TARGETS = {"none": 8.0, "scalar": 8.0, "vector": 3.0}

# No log decay of the generated data falls below this; `chunked_bounded` is told so.
BOUND = -5.0


@dataclass(frozen=True)
class Size:
    """Sizes of one recurrence.

    Attributes:
        batch: Sequences.
        length: Tokens.
        heads: Heads.
        width: Key and value width of a head.
        num_factors: Factors a token.
    """

    batch: int
    length: int
    heads: int
    width: int
    num_factors: int = 1


PAPER_SIZE = Size(8, 256, 4, 32)
CURRICULUM_SIZE = Size(64, 32, 8, 8)

Runner = Callable[[Factors], Tensor]


def _chunked(factors: Factors) -> Tensor:
    return chunked_recurrence(factors)[0]


def _chunked_bounded(factors: Factors) -> Tensor:
    return chunked_recurrence(factors, min_log_decay=BOUND)[0]


def bench_ops(
    *,
    sizes: Sequence[Size] = (PAPER_SIZE, CURRICULUM_SIZE, replace(CURRICULUM_SIZE, num_factors=2)),
    repeats: int = 7,
    threads: int = 2,
) -> pd.DataFrame:
    """Time forward and backward of every kind of recurrence.

    Within a row's workload the methods take turns, so a busy moment of the machine meets all.

    Args:
        sizes: What to time.
        repeats: Turns; the fastest and the median are reported.
        threads: Threads of torch.

    Returns:
        One row a size, kind and method: batch, length, heads, width, num_factors, threads, decay,
        erases, method, milliseconds (the fastest), median_ms, `gain` and `tight_gain` (how many
        times faster than `token_loop` and `tight_loop`), `target` (the promised gain, NaN where
        none is promised), and the load average of the last minute when the row was done.
    """
    rows = []
    kinds = itertools.product(sizes, ("none", "scalar", "vector"), (False, True))
    with torch_threads(threads):
        for size, decay, erases in kinds:
            methods: dict[str, Runner] = {
                "token_loop": token_loop,
                "tight_loop": tight_loop,
                "chunked": _chunked,
            }
            if decay == "vector":
                methods["chunked_bounded"] = _chunked_bounded
            factors = make_factors(size, decay=decay, erases=erases)
            timed = _compare(methods, factors, repeats)
            for method, (fastest, median) in timed.items():
                promised = size == PAPER_SIZE and method == "chunked"
                rows.append(
                    {
                        **vars(size),
                        "threads": threads,
                        "decay": decay,
                        "erases": erases,
                        "method": method,
                        "milliseconds": fastest,
                        "median_ms": median,
                        "gain": timed["token_loop"][0] / fastest,
                        "tight_gain": timed["tight_loop"][0] / fastest,
                        "target": TARGETS[decay] if promised else float("nan"),
                        "load": os.getloadavg()[0],
                    }
                )
    return pd.DataFrame(rows)


def chunk_sizes(
    *,
    sizes: Sequence[Size] = (PAPER_SIZE, CURRICULUM_SIZE),
    chunks: Sequence[int] = (8, 16, 32, 64),
    repeats: int = 7,
    threads: int = 2,
) -> pd.DataFrame:
    """Time the chunked recurrence by the tokens of a chunk.

    Args:
        sizes: What to time.
        chunks: Tokens a chunk; those longer than a sequence are left out.
        repeats: Turns; the fastest is reported.
        threads: Threads of torch.

    Returns:
        One row a size, kind and chunk: batch, length, heads, width, num_factors, decay, erases,
        chunk, milliseconds.
    """
    rows = []
    kinds = itertools.product(sizes, ("none", "scalar", "vector"), (False, True))
    with torch_threads(threads):
        for size, decay, erases in kinds:
            methods: dict[str, Runner] = {
                str(chunk): partial(_in_chunks, chunk) for chunk in chunks if chunk <= size.length
            }
            factors = make_factors(size, decay=decay, erases=erases)
            for chunk, (fastest, _) in _compare(methods, factors, repeats).items():
                kind = {**vars(size), "decay": decay, "erases": erases}
                rows.append({**kind, "chunk": int(chunk), "milliseconds": fastest})
    return pd.DataFrame(rows)


def _in_chunks(chunk: int, factors: Factors) -> Tensor:
    return chunked_recurrence(factors, chunk_tokens=chunk)[0]


def make_factors(
    size: Size, *, decay: str = "none", erases: bool = False, seed: int = 0
) -> Factors:
    """Random factors that require gradients: unit keys, log decays in (-1, 0), beta in (0, 1).

    Args:
        size: The sizes.
        decay: `none`, `scalar` or `vector`.
        erases: Whether there is a beta.
        seed: Seed of the numbers.

    Returns:
        The factors, in float32.
    """
    generator = torch.Generator().manual_seed(seed)
    steps = (size.batch, size.length, size.num_factors, size.heads)
    decays = {"none": None, "scalar": steps, "vector": (*steps, size.width)}
    shape = decays[decay]
    factors = Factors(
        q=torch.randn(size.batch, size.length, size.heads, size.width, generator=generator),
        k=F.normalize(torch.randn(*steps, size.width, generator=generator), dim=-1),
        v=torch.randn(*steps, size.width, generator=generator),
        log_decay=None if shape is None else -torch.rand(shape, generator=generator),
        beta=torch.rand(steps, generator=generator) if erases else None,
    )
    for tensor in _inputs(factors):
        tensor.requires_grad_()
    return factors


def _inputs(factors: Factors) -> list[Tensor]:
    """The tensors among the factors."""
    return [x for x in vars(factors).values() if isinstance(x, Tensor)]


def _compare(
    methods: dict[str, Runner], factors: Factors, repeats: int
) -> dict[str, tuple[float, float]]:
    """Fastest and median milliseconds of every method, forward and backward."""
    inputs = _inputs(factors)
    runs = {name: both_ways(partial(method, factors), inputs) for name, method in methods.items()}
    return take_turns(runs, repeats)
