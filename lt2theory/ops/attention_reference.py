"""Causal softmax attention through a dense mask: the definition that backends are tested against.

Axes: b batch, t queries, m keys, h query heads, g key heads, k key width, v value width.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from lt2theory.ops.reference import state_dtype


@dataclass(frozen=True)
class AttentionProblem:
    """Everything that one attention is computed from.

    The last query and the last key are the same token: query i is token `m - t + i`.

    Attributes:
        q: Queries `[b t h k]`.
        k: Keys `[b m g k]`; key head i serves `h / g` consecutive query heads.
        v: Values `[b m g v]`.
        window: Keys that a query sees, its own token included, or None for all.
        scale: Factor on the scores.
        query_segments: Segment of every query `[b t]`, -1 for padding, or None for one segment.
        key_segments: Segment of every key `[b m]`, or None.
    """

    q: Float[Tensor, "b t h k"]
    k: Float[Tensor, "b m g k"]
    v: Float[Tensor, "b m g v"]
    window: int | None
    scale: float
    query_segments: Int64[Tensor, "b t"] | None
    key_segments: Int64[Tensor, "b m"] | None


def visible_keys(problem: AttentionProblem) -> Bool[Tensor, "#b t m"]:
    """Which key every query sees.

    Args:
        problem: The attention.

    Returns:
        True where the key is not later than the query, inside the window, and of the query's
        segment; nowhere for a query of padding. The batch axis is 1 without segments.
    """
    length, num_keys = problem.q.shape[1], problem.k.shape[1]
    device = problem.q.device
    queries = torch.arange(num_keys - length, num_keys, device=device)[:, None]
    keys = torch.arange(num_keys, device=device)[None, :]
    visible = keys <= queries
    if problem.window is not None:
        visible &= keys > queries - problem.window
    visible = visible[None]
    if problem.query_segments is not None and problem.key_segments is not None:
        same = problem.query_segments[:, :, None] == problem.key_segments[:, None, :]
        visible = visible & same & (problem.query_segments[:, :, None] >= 0)
    return visible


def repeat_key_heads(
    x: Float[Tensor, "b m g d"], num_heads: int
) -> Float[Tensor, "b m {num_heads} d"]:
    """Give every query head its own copy of its key head.

    Args:
        x: Keys or values.
        num_heads: Query heads, a multiple of g.

    Returns:
        `x` with each head repeated for consecutive query heads.
    """
    groups = x.shape[2]
    return x if groups == num_heads else x.repeat_interleave(num_heads // groups, 2)


def reference_attention(problem: AttentionProblem) -> Float[Tensor, "b t h v"]:
    """Attention with all scores at once; a query that sees no key gets exactly zero.

    Half precision is computed in float32, and the output is cast back.

    Args:
        problem: The attention.

    Returns:
        The outputs, in the dtype of the queries.
    """
    dtype = state_dtype(problem.q.dtype)
    heads = problem.q.shape[2]
    q = problem.q.to(dtype)
    k, v = (repeat_key_heads(x.to(dtype), heads) for x in (problem.k, problem.v))
    visible = visible_keys(problem)[:, None]
    scores = problem.scale * torch.einsum("bthk,bmhk->bhtm", q, k)
    # The smallest number, not minus infinity: a row without any key then gives no NaN, neither
    # here nor in a gradient, and the product with the mask makes it zero.
    scores = scores.masked_fill(~visible, torch.finfo(dtype).min)
    weights = scores.softmax(-1) * visible
    return torch.einsum("bhtm,bmhv->bthv", weights, v).to(problem.q.dtype)
