"""The weights with which a layer mixes values: `o_t = sum_j W_tj v_j`, of one unbroken stream."""

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from lt2theory.ops import run_attention, run_factors, run_normalised
from lt2theory.ops.factors import AttentionInputs, Factors


def attention_weights(inputs: AttentionInputs) -> Float[Tensor, "b h t t"]:
    """The weights W with `o_t = sum_j W_tj v_j` of one unbroken stream, densely, in float64.

    Args:
        inputs: What one attention layer prepared. A sparse attention selects afresh in float64,
            which may differ from a narrower run where two choices are nearly equal.

    Returns:
        Attention probabilities: rows (queries) that sum to 1, exactly zero outside the window. Of
        native sparse attention the sum of its branches, each times its gate.
    """
    if type(inputs) is not AttentionInputs:
        return _sparse_weights(inputs)
    q = inputs.q.detach().double().transpose(1, 2)
    k = inputs.k.detach().double().transpose(1, 2)
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    scale = q.shape[-1] ** -0.5 if inputs.scale is None else inputs.scale
    position = torch.arange(q.shape[2], device=q.device)
    distance = position[:, None] - position
    visible = distance >= 0
    if inputs.window is not None:
        visible &= distance < inputs.window
    scores = (scale * q @ k.mT).masked_fill(~visible, -torch.inf)
    return scores.softmax(-1)


def in_float64(inputs: AttentionInputs) -> AttentionInputs:
    """The same attention in float64.

    Args:
        inputs: What one attention layer prepared.

    Returns:
        Detached inputs of the same kind.
    """
    named = vars(inputs).items()
    wide: dict[str, Any] = {n: x.detach().double() for n, x in named if isinstance(x, Tensor)}
    return replace(inputs, **wide)


def _sparse_weights(inputs: AttentionInputs) -> Float[Tensor, "b h t t"]:
    """Return what a sparse attention reads of unit vectors for values."""
    batch, length, groups, _ = inputs.k.shape
    units = torch.eye(length, dtype=torch.float64, device=inputs.k.device)
    values = units[None, :, None].expand(batch, length, groups, length)
    wide = replace(in_float64(inputs), v=values)
    return run_attention(wide, backend="reference").transpose(1, 2)


def recurrence_weights(factors: Factors, *, backend: str = "auto") -> Float[Tensor, "b h t t"]:
    """The numbers W with `o_t = sum_j W_tj v_j`, summed over a token's own factors.

    Args:
        factors: What one recurrence received, in float64.
        backend: Backend that runs it.

    Returns:
        Lower triangular weights, queries by tokens: outputs with unit vectors for values.
    """
    batch, length, num_factors, heads, _ = factors.k.shape
    units = torch.eye(length, dtype=factors.v.dtype, device=factors.v.device)
    values = units[None, :, None, None].expand(batch, length, num_factors, heads, length)
    factors = replace(factors, v=values)
    if factors.log_write is None:
        o, _ = run_factors(factors, backend=backend)
    else:  # the normaliser knows no values, so outputs are linear in them
        o, _, _ = run_normalised(factors, backend=backend)
    return o.transpose(1, 2)
