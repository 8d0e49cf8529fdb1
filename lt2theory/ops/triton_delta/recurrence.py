"""The linear recurrence with at most one decay a head by our own Triton kernels.

Precision: the state is float32 and so is what reaches it, for reflections (beta 2) at every step
too; what is read, and gradients, are cut once to TensorFloat-32 (10 bits, relative errors of some
3e-3), which `auto` takes for float32 only where the caller allowed that. First derivatives only.
Values alone of long streams and wide heads have kernels of their own; `ahead` says what they keep.

Axes: b batch, t time, h heads, k key width, v value width.
"""

from jaxtyping import Float
from torch import Tensor, is_grad_enabled, no_grad

from lt2theory.ops.factors import Factors
from lt2theory.ops.reference import reference_recurrence
from lt2theory.ops.triton_delta.ahead import run_ahead
from lt2theory.ops.triton_delta.op import delta_rule, forward_buffers


def triton_recurrence(
    factors: Factors, initial_state: Float[Tensor, "b h k v"] | None = None
) -> tuple[Float[Tensor, "b t h v"], Float[Tensor, "b h k v"]]:
    """Run the recurrence by our kernels; see `reference_recurrence` for its meaning.

    Log decays below -87 count as decays of 0. Both factor orders mean the same here: one decay a
    head commutes with the erasure.

    Args:
        factors: The inputs of the recurrence, in float32, float16 or bfloat16, with one decay a
            head or none.
        initial_state: The state before the first token in float32, zero when None.

    Returns:
        The outputs, in the dtype of `factors.v`, and the state after the last token in float32.

    Raises:
        ValueError: If a gradient of a gradient is asked for (raised by the backward pass).
    """
    if factors.v.numel() == 0:  # no tokens, rows, heads or values: there is nothing to launch
        return reference_recurrence(factors, initial_state)
    q, k, v, log_decay, beta, write, state, scale = _arguments(factors, initial_state)
    given = (q, k, v, log_decay, beta, write, state)
    keep = is_grad_enabled() and any(x is not None and x.requires_grad for x in given)
    output, final, _, _ = delta_rule(q, k, v, log_decay, beta, write, state, scale, keep)
    return output, final


@no_grad()
def ahead_recurrence(
    factors: Factors, initial_state: Float[Tensor, "b h k v"] | None = None
) -> tuple[Float[Tensor, "b t h v"], Float[Tensor, "b h k v"]]:
    """What `triton_recurrence` gives for long streams of wide heads, at any length; no gradients.

    Args:
        factors: As there, with at least one token, row, head and value.
        initial_state: As there.

    Returns:
        As there.
    """
    q, k, v, log_decay, beta, write, state, scale = _arguments(factors, initial_state)
    output, final, _, _ = forward_buffers(q, k, v, beta is not None, False)
    run_ahead((q, k, v, log_decay, beta, write), state, scale, output, final)
    return output, final


def _arguments(
    f: Factors, state: Tensor | None
) -> tuple[
    Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None, Tensor | None, float
]:
    """What the kernels take: contiguous tensors, and the scale."""
    log_decay, beta, write, start = (
        None if x is None else x.contiguous() for x in (f.log_decay, f.beta, f.write, state)
    )
    scale = f.q.shape[-1] ** -0.5 if f.scale is None else f.scale
    q, k, v = f.q.contiguous(), f.k.contiguous(), f.v.contiguous()
    return q, k, v, log_decay, beta, write, start, scale
