"""The factors that each loop's recurrence received, in float64."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from lt2theory.analysis._checks import check_at_least
from lt2theory.models import LoopTrace
from lt2theory.ops import run_factors, run_normalised
from lt2theory.ops.factors import Factors


def received_factors(trace: LoopTrace) -> Iterator[tuple[int, int, Factors]]:
    """The factors of every (layer, loop), joined as the loop-state semantics joins them.

    Args:
        trace: What `LoopedModel.trace(tokens)` returned for one unbroken stream (no `lengths`, no
            `documents`: the trace does not say where segments start). Attention is skipped.

    Yields:
        Layer, loop (both counted from 0) and the factors, detached and in float64.
    """
    earlier: dict[int, Factors] = {}
    places = sorted(place for place, own in trace.factors.items() if isinstance(own, Factors))
    for layer, loop in places:
        own = trace.factors[layer, loop]
        assert isinstance(own, Factors), "only recurrences were chosen above"
        if trace.config.loop_state == "accumulate":
            own = own.after(earlier.get(layer))
            earlier[layer] = own
        yield layer, loop, _in_float64(own)


def token_range(factors: Factors, start: int, stop: int) -> Factors:
    """The factors of the tokens `start .. stop - 1`.

    Args:
        factors: Factors of a longer stream.
        start: First token.
        stop: Token after the last.

    Returns:
        Views into the same tensors.
    """

    def cut(x: Tensor | None) -> Tensor | None:
        return None if x is None else x[:, start:stop]

    return replace(
        factors,
        q=factors.q[:, start:stop],
        k=factors.k[:, start:stop],
        v=factors.v[:, start:stop],
        log_decay=cut(factors.log_decay),
        beta=cut(factors.beta),
        write=cut(factors.write),
        log_write=cut(factors.log_write),
    )


def states_over_time(
    factors: Factors, *, every: int = 1, backend: str = "auto"
) -> Iterator[tuple[int, Float[Tensor, "b h k v"]]]:
    """The matrix states of a recurrence that starts empty.

    Args:
        factors: What it received; an mLSTM's state is its memory C, before the normaliser.
        every: Tokens between two states; the last one always comes.
        backend: Backend that runs the recurrence.

    Yields:
        Tokens read so far, and the state `[b h k v]`.

    Raises:
        ValueError: If `every` is below 1.
    """
    check_at_least("every", every, 1)
    length = factors.k.shape[1]
    state: Tensor | None = None
    log_max: Tensor | None = None
    for start in range(0, length, every):
        stop = min(start + every, length)
        part = token_range(factors, start, stop)
        if part.log_write is None:
            _, state = run_factors(part, initial_state=state, backend=backend)
            yield stop, state
        else:
            _, state, log_max = run_normalised(
                part, initial_state=state, initial_log_max=log_max, backend=backend
            )
            yield stop, state[..., :-1] * log_max.exp()[..., None, None]


def _in_float64(factors: Factors) -> Factors:
    """Return detached float64 factors."""

    def widen(x: Tensor | None) -> Tensor | None:
        return None if x is None else x.detach().to(torch.float64)

    return replace(
        factors,
        q=factors.q.detach().double(),
        k=factors.k.detach().double(),
        v=factors.v.detach().double(),
        log_decay=widen(factors.log_decay),
        beta=widen(factors.beta),
        write=widen(factors.write),
        log_write=widen(factors.log_write),
        skip=widen(factors.skip),
    )
