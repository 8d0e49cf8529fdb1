"""The public softmax attention: checks its arguments, chooses a backend, runs it."""

import torch
from torch import Tensor

from lt2theory.ops.attention_reference import AttentionProblem
from lt2theory.ops.autocast import own_precision
from lt2theory.ops.backends import ATTENTIONS, AttentionRunner, AttentionWorkload, Choice
from lt2theory.ops.factors import AttentionInputs

# Annotated as plain tensors for the reason given in lt2theory.ops.recurrence.


def softmax_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    window: int | None = None,
    scale: int | float | None = None,
    query_segments: Tensor | None = None,
    key_segments: Tensor | None = None,
    backend: str = "auto",
) -> Tensor:
    """Causal softmax attention, full or inside a window, with grouped key heads and segments.

    The last query and the last key are the same token, so with earlier keys from a cache query i
    is token `M - L + i`. All tensors but the segments share one floating dtype, and all share one
    device; autocast changes nothing. The fused kernels behind `chunked` have first derivatives
    only, in reverse mode; `reference` has all.

    Args:
        q: Queries `[batch, L, head, key width]`.
        k: Keys `[batch, M >= L, key head, key width]`; the key heads divide the heads, and each
            serves as many consecutive query heads.
        v: Values `[batch, M, key head, value width]`.
        window: Keys that a query sees, its own token included, counted by position whatever the
            segments; None for all.
        scale: Factor on the scores, or None for `key width ** -0.5`.
        query_segments: Segment of every query `[batch, L]`, int64. A query sees keys of its own
            segment only; in segment -1 (padding) it sees none and its output is exactly zero.
        key_segments: Segment of every key `[batch, M]`, int64; given with `query_segments`.
        backend: A name in `BACKENDS`.

    Returns:
        The outputs `[batch, L, head, value width]` in the dtype of q.

    Raises:
        ValueError: If an argument has a wrong shape, dtype, device, value or name.
    """
    _check_heads(q, k, v)
    if window is not None and window < 1:
        raise ValueError(f"window must be at least 1 or None, got {window}")
    if (query_segments is None) != (key_segments is None):
        missing = "query_segments" if query_segments is None else "key_segments"
        raise ValueError(f"{missing} must be given where the other segments are, got None")
    _check_segments("query_segments", query_segments, q)
    _check_segments("key_segments", key_segments, k)
    problem = AttentionProblem(
        q,
        k,
        v,
        window=window,
        scale=q.shape[-1] ** -0.5 if scale is None else float(scale),
        query_segments=query_segments,
        key_segments=key_segments,
    )
    runner = explain_attention(problem, backend=backend).backend.load()
    with own_precision(q.device):
        return runner(problem)


def explain_attention(
    problem: AttentionProblem, *, backend: str = "auto"
) -> Choice[AttentionWorkload, AttentionRunner]:
    """Which backend would run this attention, and why.

    Args:
        problem: The attention.
        backend: A name in `BACKENDS`.

    Returns:
        The choice; `str()` of it is one line for a person.
    """
    return ATTENTIONS.choose(AttentionWorkload.of(problem), backend)


def run_attention(
    inputs: AttentionInputs,
    *,
    query_segments: Tensor | None = None,
    key_segments: Tensor | None = None,
    backend: str = "auto",
) -> Tensor:
    """Whichever attention the inputs are for; keys may begin before the queries, as from a cache.

    Args:
        inputs: What an attention mixer prepared, with the cached keys and values put in front.
        query_segments: As for `softmax_attention`.
        key_segments: As for `softmax_attention`.
        backend: A name in `BACKENDS`.

    Returns:
        The outputs `[batch, L, head, value width]`.

    Raises:
        ValueError: If a shape, dtype, device, value or name does not fit.
    """
    return softmax_attention(
        inputs.q,
        inputs.k,
        inputs.v,
        window=inputs.window,
        scale=inputs.scale,
        query_segments=query_segments,
        key_segments=key_segments,
        backend=backend,
    )


def _check_heads(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Refuse queries, keys and values that do not fit each other."""
    for name, x in {"q": q, "k": k, "v": v}.items():
        shape = tuple(x.shape)
        if x.dim() != 4:
            raise ValueError(f"{name} must have 4 axes [batch, time, head, width], got {shape}")
        if not x.is_floating_point() or x.dtype != q.dtype:
            raise ValueError(f"{name} must be of q's floating dtype {q.dtype}, got {x.dtype}")
        if x.device != q.device:
            raise ValueError(f"{name} must be on {q.device} as q is, got {x.device}")
    batch, length, heads, width = q.shape
    if width == 0 or heads == 0:
        raise ValueError(f"q must have at least one head and channel, got {tuple(q.shape)}")
    if k.shape[0] != batch or k.shape[1] < length or k.shape[3] != width:
        raise ValueError(
            f"k must have shape ({batch}, at least {length}, key head, {width}) to match q, "
            f"got {tuple(k.shape)}"
        )
    if k.shape[2] == 0 or heads % k.shape[2]:
        raise ValueError(f"k must have a number of heads that divides {heads}, got {k.shape[2]}")
    if v.shape[:3] != k.shape[:3]:
        raise ValueError(
            f"v must have shape {(*k.shape[:3], 'value width')} to match k, got {tuple(v.shape)}"
        )


def _check_segments(name: str, segments: Tensor | None, like: Tensor) -> None:
    """Refuse segments that do not fit the queries or keys they belong to."""
    if segments is None:
        return
    if segments.shape != like.shape[:2]:
        raise ValueError(
            f"{name} must have shape {tuple(like.shape[:2])}, got {tuple(segments.shape)}"
        )
    if segments.dtype != torch.int64:
        raise ValueError(f"{name} must be torch.int64, got {segments.dtype}")
    if segments.device != like.device:
        raise ValueError(f"{name} must be on {like.device} as q is, got {segments.device}")
