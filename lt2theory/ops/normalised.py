"""Normalised recurrences: what is read is divided by the weights that are read (xLSTM's mLSTM).

With a forget gate f and an exponential input gate e^i (arXiv 2405.04517, equations 19 to 27)

    C_s = f_s C_{s-1} + e^{i_s} k_s v_s^T,   n_s = f_s n_{s-1} + e^{i_s} k_s,
    o_t = C_t^T q_t / max(|n_t^T q_t|, 1),

over all factor steps s, q reading after its token's last. e^i overflows, so the state kept is
`e^{-m} [C, n]` for the stabiliser `m_s = max(log f_s + m_{s-1}, i_s, 0)`. That is one more linear
recurrence, run by any backend: n is a last column of the state, whose values are all 1.

The output does not depend on m at all. So m is a constant to every derivative, without any error;
and it may be held at 0 or above, where the paper lets it sink: 0 is the m of an empty state, and
below it e^{-m} would overflow while what it scales, at most 1, needs no scaling.

Axes: b batch, t time, f factors a token, h heads, k key width, v value width, n = v + 1 with the
normaliser's column.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from lt2theory.ops.factors import Factors
from lt2theory.ops.recurrence import run_factors
from lt2theory.ops.reference import state_dtype


@dataclass(frozen=True)
class Stabilised:
    """Plain factors of a normalised recurrence, and what their read-out is divided by.

    Attributes:
        factors: Factors with `write` in place of `log_write`, decays and writes at most 1, and a
            value of 1 in one more column; in at least float32.
        log_max: Stabiliser after the last factor of each token `[b t h]`, at least 0.
    """

    factors: Factors
    log_max: Float[Tensor, "b t h"]

    def normalise(self, read: Float[Tensor, "b t h n"]) -> Float[Tensor, "b t h v"]:
        """Divide what was read by `max(|n^T q|, 1)`, both in units of e^m.

        Args:
            read: Output of the recurrence of `factors`.

        Returns:
            The outputs, without the column of the normaliser.
        """
        least = torch.exp(-self.log_max).clamp(min=torch.finfo(read.dtype).tiny)
        weight: Tensor = torch.maximum(read[..., -1].abs(), least)
        output: Tensor = read[..., :-1] / weight.unsqueeze(-1)
        return output

    def last_log_max(self, before: Float[Tensor, "b h"] | None) -> Float[Tensor, "b h"]:
        """The stabiliser after the last token, to go on from.

        Args:
            before: The stabiliser that `stabilise` started from.

        Returns:
            A tensor of its own; `before`, or zeros, where there are no tokens.
        """
        if self.log_max.shape[1]:
            return self.log_max[:, -1].clone()
        shape = (self.log_max.shape[0], self.log_max.shape[2])
        return self.log_max.new_zeros(shape) if before is None else before


def stabilise(
    factors: Factors,
    log_max: Float[Tensor, "b h"] | None = None,
    *,
    starts: Bool[Tensor, "b t"] | None = None,
    real: Bool[Tensor, "b t"] | None = None,
) -> Stabilised:
    """Rewrite a normalised recurrence as a plain one of the state `e^{-m} [C, n]`.

    Args:
        factors: Factors with `log_write`; a decay a channel counts by its largest channel.
        log_max: Stabiliser that the initial state is scaled by, or None for 0.
        starts: Tokens that find an empty state; the caller empties it.
        real: Tokens that are no padding; padding leaves the stabiliser alone, and the caller keeps
            it from the state.

    Returns:
        Plain factors and the stabiliser.

    Raises:
        ValueError: If the factors have no `log_write`, or a `skip`.
    """
    if factors.log_write is None:
        raise ValueError("log_write must be given for a normalised recurrence, got None")
    if factors.skip is not None:
        raise ValueError("skip must be None for a normalised recurrence, got a tensor")
    dtype = state_dtype(factors.v.dtype)
    log_write = factors.log_write.to(dtype)
    decay = torch.zeros_like(log_write)
    if factors.log_decay is not None:
        decay = factors.log_decay.to(dtype)
    vector = decay.dim() > log_write.dim()
    slowest = decay.amax(-1) if vector else decay
    before, after = _stabilisers(slowest, log_write, log_max, starts, real)
    change = before - after
    return Stabilised(
        replace(
            factors,
            q=factors.q.to(dtype),
            k=factors.k.to(dtype),
            v=F.pad(factors.v.to(dtype), (0, 1), value=1.0),
            log_decay=decay + (change.unsqueeze(-1) if vector else change),
            beta=None if factors.beta is None else factors.beta.to(dtype),
            write=torch.exp(log_write - after),
            log_write=None,
        ),
        after[:, :, -1],
    )


def run_normalised(
    factors: Factors,
    *,
    initial_state: Float[Tensor, "b h k n"] | None = None,
    initial_log_max: Float[Tensor, "b h"] | None = None,
    backend: str = "auto",
) -> tuple[Float[Tensor, "b t h v"], Float[Tensor, "b h k n"], Float[Tensor, "b h"]]:
    """Run a normalised recurrence over one unbroken stream.

    Args:
        factors: Factors with `log_write`.
        initial_state: `e^{-m} [C, n]` before the first token, or None for zero.
        initial_log_max: Its m, or None for 0.
        backend: A name in `BACKENDS`.

    Returns:
        The outputs, and `e^{-m} [C, n]` and m after the last token; all in at least float32.

    Raises:
        ValueError: If the factors have no `log_write`, or the backend cannot do this.
    """
    plain = stabilise(factors, initial_log_max)
    read, state = run_factors(plain.factors, initial_state=initial_state, backend=backend)
    return plain.normalise(read), state, plain.last_log_max(initial_log_max)


@torch.no_grad()
def _stabilisers(
    log_decay: Float[Tensor, "b t f h"],
    log_write: Float[Tensor, "b t f h"],
    log_max: Float[Tensor, "b h"] | None,
    starts: Bool[Tensor, "b t"] | None,
    real: Bool[Tensor, "b t"] | None,
) -> tuple[Float[Tensor, "b t f h"], Float[Tensor, "b t f h"]]:
    """The stabiliser before and after every factor step.

    A step is the map `m -> max(m + a, c)`, and so are steps in a row: a scan of doubling reach
    joins them. Sums of decays are compared, never subtracted, so none of them cancels however
    long the sequence is.

    Returns:
        Both `[b t f h]`, without a gradient.
    """
    shift, floor = log_decay, log_write.clamp(min=0.0)
    if starts is not None:
        first = (torch.arange(shift.shape[2], device=shift.device) == 0).unsqueeze(-1)
        shift = shift.masked_fill(starts[:, :, None, None] & first, -torch.inf)
    if real is not None:
        padding = ~real[:, :, None, None]
        shift, floor = shift.masked_fill(padding, 0.0), floor.masked_fill(padding, -torch.inf)
    shape = shift.shape
    shift, floor = shift.flatten(1, 2), floor.flatten(1, 2)
    reach = 1
    while reach < shift.shape[1]:
        joined = torch.maximum(floor[:, :-reach] + shift[:, reach:], floor[:, reach:])
        floor = torch.cat([floor[:, :reach], joined], 1)
        shift = torch.cat([shift[:, :reach], shift[:, :-reach] + shift[:, reach:]], 1)
        reach *= 2
    start = torch.zeros_like(shift[:, :1]) if log_max is None else log_max.unsqueeze(1).to(shift)
    after = torch.maximum(start + shift, floor)
    before = torch.cat([start, after], 1)[:, :-1]
    return before.view(shape), after.view(shape)
