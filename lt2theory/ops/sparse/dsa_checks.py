"""What DeepSeek sparse attention refuses: an indexer or numbers that do not fit the attention."""

from torch import Tensor

from lt2theory.ops.attention_checks import check_heads, check_segments
from lt2theory.ops.sparse.dsa_reference import IndexedProblem

# Annotated as plain tensors for the reason given in lt2theory.ops.recurrence.


def checked_problem(
    attention: tuple[Tensor, Tensor, Tensor],
    indexer: tuple[Tensor, Tensor, Tensor],
    *,
    top_k: int,
    window: int | None,
    scale: int | float | None,
    segments: tuple[Tensor | None, Tensor | None],
) -> IndexedProblem:
    """The attention that the arguments of `indexed_attention` define.

    Args:
        attention: q, k and v.
        indexer: index_q, index_k and index_weight.
        top_k: Keys that a query attends to.
        window: Keys that a query sees, or None for all.
        scale: Factor on the scores of the attention, or None for `key width ** -0.5`.
        segments: Those of the queries and of the keys.

    Returns:
        The attention, checked.

    Raises:
        ValueError: If a shape, dtype, device or number does not fit.
    """
    q, k, v = attention
    check_heads(q, k, v)
    check_segments(*segments, q, k)
    for name, value in {"top_k": top_k, "window": window}.items():
        if value is not None and value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}")
    index_q, index_k, index_weight = indexer
    _check_indexer(q, k.shape[1], index_q, index_k, index_weight)
    return IndexedProblem(
        q,
        k,
        v,
        window=window,
        scale=q.shape[-1] ** -0.5 if scale is None else float(scale),
        query_segments=segments[0],
        key_segments=segments[1],
        index_q=index_q,
        index_k=index_k,
        index_weight=index_weight,
        top_k=top_k,
    )


def _check_indexer(
    q: Tensor, num_keys: int, index_q: Tensor, index_k: Tensor, index_weight: Tensor
) -> None:
    """Refuse an indexer that does not fit the attention."""
    shape = tuple(index_q.shape)
    if len(shape) != 4 or shape[:2] != q.shape[:2] or 0 in shape[2:]:
        raise ValueError(
            f"index_q must have shape {(*q.shape[:2], 'index head >= 1', 'index width >= 1')}, "
            f"got {shape}"
        )
    expected = {
        "index_q": (index_q, shape),
        "index_k": (index_k, (shape[0], num_keys, shape[3])),
        "index_weight": (index_weight, shape[:3]),
    }
    for name, (x, wanted) in expected.items():
        if tuple(x.shape) != wanted:
            raise ValueError(f"{name} must have shape {wanted}, got {tuple(x.shape)}")
        if x.dtype != q.dtype:
            raise ValueError(f"{name} must be {q.dtype} as q is, got {x.dtype}")
        if x.device != q.device:
            raise ValueError(f"{name} must be on {q.device} as q is, got {x.device}")
