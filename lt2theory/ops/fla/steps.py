"""Factors as the steps of one of FLA's kernels, and its outputs as those of tokens.

Several factors a token become as many steps: the query reads at a token's last step, and the
outputs of the others are dropped. Widths are filled up with zeros to multiples of 16: smaller
tiles do not exist, and odd widths of half precision read out of bounds
(https://github.com/fla-org/flash-linear-attention/pull/1241). Sequences that are shorter than a
kernel takes safely (`Kernel.least_steps`) are filled up with steps that change nothing.

Axes: b batch, t time, f factors a token, s steps (t times f), h heads, k key width, v value width.
"""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from lt2theory.ops.factors import Factors
from lt2theory.ops.fla.autograd import first_order_only, guard_lifted
from lt2theory.ops.fla.kernels import Kernel, Steps

# e^-110 is 0 in float32. FLA adds up log decays in float32, where a reset of -1000 would cost the
# decays after it their last digits.
_LEAST_LOG_DECAY = -110.0

_TILE = 16


def run_kernel(
    kernel: Kernel,
    factors: Factors,
    initial_state: Float[Tensor, "b h k v"] | None = None,
    *,
    by_steps: bool = False,
    lift_guard: bool = False,
) -> tuple[Float[Tensor, "b t h v"], Float[Tensor, "b h k v"]]:
    """Run one given kernel on factors that it can compute.

    Args:
        kernel: The kernel.
        factors: Factors with tokens, whose decay and erasure the kernel has.
        initial_state: The state before the first token, zero when None.
        by_steps: Whether to take the kernel for a few steps.
        lift_guard: Whether to lift FLA's own guard during the backward pass
            (`lt2theory.ops.fla.autograd`).

    Returns:
        The outputs and the state after the last token.
    """
    key_width, value_width = factors.k.shape[-1], factors.v.shape[-1]
    steps = _as_steps(factors, initial_state, kernel)
    length = steps.q.shape[1]
    if not by_steps:
        steps = _lengthened(steps, kernel.least_steps)
    steps = first_order_only(steps, lift_guard)
    output, state = (kernel.step if by_steps else kernel.chunk)(steps)
    if lift_guard:
        output, state = guard_lifted(output, state)
    output = output[:, :length].unflatten(1, (-1, factors.num_factors))[:, :, -1, :, :value_width]
    return output, state[:, :, :key_width, :value_width]


def _as_steps(factors: Factors, state: Tensor | None, kernel: Kernel) -> Steps:
    """The factors one after the other, in the form that the kernel takes."""
    f, key_width = factors.num_factors, factors.k.shape[-1]
    k, v = factors.k.flatten(1, 2), factors.v.flatten(1, 2)
    q = factors.q
    if f > 1:  # the query belongs to the last factor
        q = F.pad(q.unsqueeze(2), (0, 0, 0, 0, f - 1, 0)).flatten(1, 2)
    if factors.write is not None:
        v = v * factors.write.flatten(1, 2).unsqueeze(-1)
    if state is not None:
        state = _fill(state, 2, 1)
    return Steps(
        q=_fill(q, 1),
        k=_fill(k, 1),
        v=_fill(v, 1),
        log_decay=_decay_of(factors, kernel.decay),
        beta=None if factors.beta is None else factors.beta.flatten(1, 2),
        scale=key_width**-0.5 if factors.scale is None else factors.scale,
        state=state,
    )


def _lengthened(steps: Steps, least: int) -> Steps:
    """Steps that neither decay, erase nor write behind the last one, up to `least` in all."""
    missing = least - steps.q.shape[1]
    if missing <= 0:
        return steps

    def fill(x: Tensor) -> Tensor:
        return F.pad(x, [0, 0] * (x.dim() - 2) + [0, missing])

    return replace(
        steps,
        q=fill(steps.q),
        k=fill(steps.k),
        v=fill(steps.v),
        log_decay=None if steps.log_decay is None else fill(steps.log_decay),
        beta=None if steps.beta is None else fill(steps.beta),
    )


def _decay_of(factors: Factors, kind: str) -> Tensor | None:
    """The log decay in float32, a head or a channel as the kernel takes it."""
    if kind == "none":
        return None
    log_decay = factors.log_decay
    if log_decay is None:
        log_decay = torch.zeros_like(factors.k[..., 0])
    vector = log_decay.dim() == factors.k.dim()
    log_decay = log_decay.float().clamp(min=_LEAST_LOG_DECAY).flatten(1, 2)
    if kind == "vector" and not vector:
        log_decay = log_decay.unsqueeze(-1).expand(*log_decay.shape, factors.k.shape[-1])
    return _fill(log_decay, 1) if kind == "vector" else log_decay


def _fill(x: Tensor, *axes: int) -> Tensor:
    """Zeros behind the last axis, or the axes counted from the end, up to a multiple of a tile."""
    missing = [0] * max(axes)
    for axis in axes:
        missing[axis - 1] = -x.shape[-axis] % _TILE
    return F.pad(x, [size for end in missing for size in (0, end)]) if any(missing) else x
