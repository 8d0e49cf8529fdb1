"""Speed of the recurrences, beside token loops over the same numbers."""

import itertools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from lt2theory.ops import AttentionProblem, Factors
from lt2theory.ops.attention_chunked import chunked_attention
from lt2theory.ops.attention_reference import reference_attention
from lt2theory.ops.chunked.recurrence import chunked_recurrence

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


def token_loop(factors: Factors) -> Float[Tensor, "b t h v"]:
    """The recurrence as public naive versions write it: einsum, and outputs written in place.

    As fast as FLA's naive recurrences, which are the baseline that the targets are stated for.

    Args:
        factors: Decay-first factors whose write strength is beta or 1.

    Returns:
        The outputs.
    """
    q = factors.q * factors.q.shape[-1] ** -0.5
    alphas = None if factors.log_decay is None else factors.log_decay.exp()
    state = q.new_zeros(*q.shape[:1], *q.shape[2:], factors.v.shape[-1])
    output = torch.zeros_like(factors.v[:, :, 0])
    for t, f in itertools.product(range(q.shape[1]), range(factors.num_factors)):
        key, value = factors.k[:, t, f], factors.v[:, t, f]
        if alphas is not None:
            alpha = alphas[:, t, f]
            state = state * alpha.view(*alpha.shape[:2], -1, 1)
        if factors.beta is not None:
            read = (key[..., None] * state).sum(-2)
            key, value = factors.beta[:, t, f, :, None] * key, value - read
        state = state + torch.einsum("bhk,bhv->bhkv", key, value)
        if f == factors.num_factors - 1:
            output[:, t] = torch.einsum("bhk,bhkv->bhv", q[:, t], state)
    return output


def tight_loop(factors: Factors) -> Float[Tensor, "b t h v"]:
    """The same without indexing, einsum or writing in place: a harder baseline.

    Args:
        factors: Decay-first factors whose write strength is beta or 1.

    Returns:
        The outputs.
    """
    steps = factors.num_factors
    queries = (factors.q * factors.q.shape[-1] ** -0.5).unsqueeze(-1).unbind(1)
    keys = factors.k.unsqueeze(-1).flatten(1, 2).unbind(1)
    values = factors.v.flatten(1, 2).unbind(1)
    alphas: Sequence[Tensor] = ()
    if factors.log_decay is not None:
        alpha = factors.log_decay.exp().flatten(1, 2)
        alphas = alpha.view(*alpha.shape[:3], -1, 1).unbind(1)
    betas = () if factors.beta is None else factors.beta.unsqueeze(-1).flatten(1, 2).unbind(1)
    state = torch.zeros_like(keys[0] * values[0].unsqueeze(-2))
    outputs = []
    for i, (key, value) in enumerate(zip(keys, values, strict=True)):
        if alphas:
            state = state * alphas[i]
        written = (value - (key * state).sum(-2)) * betas[i] if betas else value
        state = state + key * written.unsqueeze(-2)
        if i % steps == steps - 1:
            outputs.append((queries[i // steps] * state).sum(-2))
    return torch.stack(outputs, 1)


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
    with _torch_threads(threads):
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
    with _torch_threads(threads):
        for size, decay, erases in kinds:
            methods: dict[str, Runner] = {
                str(chunk): lambda factors, chunk=chunk: (  # type: ignore[misc]
                    chunked_recurrence(factors, chunk_tokens=chunk)[0]
                )
                for chunk in chunks
                if chunk <= size.length
            }
            factors = make_factors(size, decay=decay, erases=erases)
            for chunk, (fastest, _) in _compare(methods, factors, repeats).items():
                kind = {**vars(size), "decay": decay, "erases": erases}
                rows.append({**kind, "chunk": int(chunk), "milliseconds": fastest})
    return pd.DataFrame(rows)


def bench_attention(*, repeats: int = 7, threads: int = 2) -> pd.DataFrame:
    """Time forward and backward of softmax attention, full and inside windows.

    Args:
        repeats: Turns; the fastest is reported.
        threads: Threads of torch.

    Returns:
        One row a setting and backend: batch, length, heads, width, window (NaN for full), method,
        milliseconds, and `gain` over the reference.
    """
    rows = []
    settings = ((4, 512, 4, 32, None), (4, 512, 4, 32, 64), (2, 2048, 4, 64, 256))
    with _torch_threads(threads):
        for batch, length, heads, width, window in settings:
            generator = torch.Generator().manual_seed(0)
            shape = (batch, length, heads, width)
            q, k, v = (torch.randn(shape, generator=generator).requires_grad_() for _ in range(3))
            problem = AttentionProblem(q, k, v, window, width**-0.5, None, None)
            runs = {
                "reference": _both_ways(lambda: reference_attention(problem), [q, k, v]),  # noqa: B023
                "chunked": _both_ways(lambda: chunked_attention(problem), [q, k, v]),  # noqa: B023
            }
            timed = _take_turns(runs, repeats)
            for method, (fastest, _) in timed.items():
                sizes = dict(zip(("batch", "length", "heads", "width"), shape, strict=True))
                gain = timed["reference"][0] / fastest
                row = {"window": window, "method": method, "milliseconds": fastest, "gain": gain}
                rows.append({**sizes, **row})
    return pd.DataFrame(rows).astype({"window": float})


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
    runs = {
        name: _both_ways(lambda method=method: method(factors), inputs)  # type: ignore[misc]
        for name, method in methods.items()
    }
    return _take_turns(runs, repeats)


def _both_ways(forward: Callable[[], Tensor], inputs: list[Tensor]) -> Callable[[], object]:
    """A run of `forward` and of its backward pass from one fixed gradient."""
    gradient = torch.ones_like(forward())
    return lambda: torch.autograd.grad(forward(), inputs, gradient)


def _take_turns(
    runs: dict[str, Callable[[], object]], repeats: int
) -> dict[str, tuple[float, float]]:
    """Fastest and median milliseconds, the runs taking turns after one turn to warm up."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _, (name, run) in itertools.product(range(repeats + 1), runs.items()):
        begin = time.perf_counter()
        run()
        times[name].append(1e3 * (time.perf_counter() - begin))
    kept = {name: sorted(values[1:]) for name, values in times.items()}
    return {name: (values[0], values[len(values) // 2]) for name, values in kept.items()}


@contextmanager
def _torch_threads(threads: int) -> Iterator[None]:
    """Torch with so many threads, and with the former number afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
