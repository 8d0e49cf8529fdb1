"""The linear recurrence with at most one decay a head by our own Triton kernels.

Precision: the state is float32 and so is what reaches it, for reflections (beta 2) at every step
too; what is read, and gradients, are cut once to TensorFloat-32 (10 bits, relative errors of some
3e-3), which `auto` takes for float32 only where the caller allowed that. First derivatives only.

Axes: b batch, t time, h heads, k key width, v value width.
"""

from jaxtyping import Float
from torch import Tensor, is_grad_enabled

from lt2theory.ops.factors import Factors
from lt2theory.ops.reference import reference_recurrence
from lt2theory.ops.triton_delta.op import delta_rule


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
    f = factors
    given = (f.q, f.k, f.v, f.log_decay, f.beta, f.write, initial_state)
    q, k, v, log_decay, beta, write, state = (x if x is None else x.contiguous() for x in given)
    assert q is not None
    assert k is not None
    assert v is not None
    scale = q.shape[-1] ** -0.5 if f.scale is None else f.scale
    keep = is_grad_enabled() and any(x is not None and x.requires_grad for x in given)
    output, final, _, _ = delta_rule(q, k, v, log_decay, beta, write, state, scale, keep)
    return output, final
