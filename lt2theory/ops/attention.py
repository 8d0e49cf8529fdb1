"""The public softmax attention: checks its arguments, chooses a backend, runs it."""

from torch import Tensor

from lt2theory.ops.attention_checks import check_heads, check_segments
from lt2theory.ops.attention_reference import AttentionProblem
from lt2theory.ops.autocast import own_precision
from lt2theory.ops.backends import ATTENTIONS
from lt2theory.ops.factors import AttentionInputs, BlockSparseInputs, IndexedInputs
from lt2theory.ops.registry import Choice
from lt2theory.ops.sparse.dsa import run_indexed_attention
from lt2theory.ops.sparse.nsa import native_sparse_attention
from lt2theory.ops.workload import AttentionRunner, AttentionWorkload

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
    check_heads(q, k, v)
    if window is not None and window < 1:
        raise ValueError(f"window must be at least 1 or None, got {window}")
    check_segments(query_segments, key_segments, q, k)
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
    if isinstance(inputs, BlockSparseInputs):
        return native_sparse_attention(
            inputs.q,
            inputs.k,
            inputs.v,
            inputs.gates,
            block_size=inputs.block_size,
            num_blocks=inputs.num_blocks,
            window=inputs.window,
            scale=inputs.scale,
            query_segments=query_segments,
            key_segments=key_segments,
            backend=backend,
        )
    if isinstance(inputs, IndexedInputs):
        return run_indexed_attention(
            inputs, query_segments=query_segments, key_segments=key_segments, backend=backend
        )
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
