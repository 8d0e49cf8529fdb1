"""The linear recurrence token by token: the definition that every other backend is tested against.

Axes: b batch, t time, f factors a token, h heads, k key width, v value width.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from lt2theory.ops.factors import FactorOrder, Factors


def state_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype of a matrix state for inputs of `dtype`.

    Args:
        dtype: A floating dtype.

    Returns:
        float64 for float64, float32 for everything narrower.
    """
    return torch.promote_types(dtype, torch.float32)


def apply_factor(
    state: Float[Tensor, "*batch k v"],
    key: Float[Tensor, "*batch k"],
    value: Float[Tensor, "*batch v"],
    *,
    log_decay: Float[Tensor, "*batch"] | Float[Tensor, "*batch k"] | None = None,
    beta: Float[Tensor, "*batch"] | None = None,
    write: Float[Tensor, "*batch"] | None = None,
    order: FactorOrder = "decay_first",
) -> Float[Tensor, "*batch k v"]:
    """One factor applied to the state: decay and erase in the given order, then write.

    Args:
        state: The state before the factor.
        key: The key.
        value: The value.
        log_decay: Natural log of the decay, one a head or one a channel, or None.
        beta: Erase strength, or None.
        write: Write strength, or None for `beta` where there is one and 1 elsewhere.
        order: Which of decay and erase acts first.

    Returns:
        The state after the factor.
    """
    if order == "decay_first":
        state = _erase(_decay(state, log_decay), key, beta)
    else:
        state = _decay(_erase(state, key, beta), log_decay)
    strength = beta if write is None else write
    written = value if strength is None else strength[..., None] * value
    return state + key[..., :, None] * written[..., None, :]


def reference_recurrence(
    factors: Factors, initial_state: Float[Tensor, "b h k v"] | None = None
) -> tuple[Float[Tensor, "b t h v"], Float[Tensor, "b h k v"]]:
    """Run the recurrence one token, and one factor, at a time.

    Half-precision inputs are computed in float32, and the output is cast back.

    Args:
        factors: The inputs of the recurrence.
        initial_state: The state before the first token, zero when None.

    Returns:
        The outputs, in the dtype of `factors.v`, and the state after the last token.
    """
    dtype = state_dtype(factors.v.dtype)
    q, k, v = factors.q.to(dtype), factors.k.to(dtype), factors.v.to(dtype)
    batch, length, num_factors, heads, key_width = k.shape
    scale = key_width**-0.5 if factors.scale is None else factors.scale
    state = initial_state
    if state is None:
        state = v.new_zeros(batch, heads, key_width, v.shape[-1])
    outputs = []
    for t in range(length):
        for f in range(num_factors):
            state = apply_factor(
                state,
                k[:, t, f],
                v[:, t, f],
                log_decay=_at(factors.log_decay, t, f, dtype),
                beta=_at(factors.beta, t, f, dtype),
                write=_at(factors.write, t, f, dtype),
                order=factors.order,
            )
        outputs.append(scale * torch.einsum("bhk,bhkv->bhv", q[:, t], state))
    output = torch.stack(outputs, 1) if outputs else v.new_zeros(batch, 0, heads, v.shape[-1])
    return output.to(factors.v.dtype), state


def _at(gate: Tensor | None, t: int, f: int, dtype: torch.dtype) -> Tensor | None:
    """The gate of factor f at token t."""
    return None if gate is None else gate[:, t, f].to(dtype)


def _decay(state: Tensor, log_decay: Tensor | None) -> Tensor:
    """Multiply row i of the state by alpha_i (or the whole state by alpha)."""
    if log_decay is None:
        return state
    alpha = log_decay.exp()
    per_channel = alpha.dim() == state.dim() - 1
    return state * (alpha[..., None] if per_channel else alpha[..., None, None])


def _erase(state: Tensor, key: Tensor, beta: Tensor | None) -> Tensor:
    """Multiply the state by `I - beta k k^T` from the left."""
    if beta is None:
        return state
    read = torch.einsum("...k,...kv->...v", key, state)
    return state - (beta[..., None] * key)[..., :, None] * read[..., None, :]
