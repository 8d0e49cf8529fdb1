"""DeepSeek sparse attention by chunks of queries: score, select, gather, attend.

A chunk's scores are as wide as the text so far, and no more than one chunk of them is alive at a
time; what a gradient keeps grows with `length * top_k`. Plain torch, so it runs on CUDA too.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from lt2theory.ops.attention_chunked import chunked_attention
from lt2theory.ops.attention_reference import repeat_key_heads, visible_keys
from lt2theory.ops.reference import state_dtype
from lt2theory.ops.sparse.dsa_reference import (
    IndexedProblem,
    IndexerLoss,
    attention_over,
    count_queries,
    divergence,
    index_scores,
)

_CHUNK = 64
"""Queries scored at a time, at least."""
_SCORES = 2**25
"""Scores of one chunk on a GPU, which needs that many to be busy."""

_WORTH_GATHERING = 8
"""To gather a key and its value costs about as much as to score so many and mask them."""


def chunked_indexed_attention(problem: IndexedProblem) -> Float[Tensor, "b t h v"]:
    """Attention over the selected keys; see `reference_indexed_attention` for its meaning.

    Where `top_k` covers every key there is nothing to select, and it is softmax attention.

    Args:
        problem: The attention.

    Returns:
        The outputs, in the dtype of the queries.
    """
    if problem.q.shape[1] == 0 or problem.top_k >= problem.k.shape[1]:
        return chunked_attention(problem.plain())
    return torch.cat([_attend(part) for part in _parts(problem)], 1)


def chunked_indexer_loss(problem: IndexedProblem, kind: IndexerLoss) -> Float[Tensor, ""]:
    """The indexer's loss; see `reference_indexer_loss` for its meaning.

    The chunks are computed again for the gradient, so that their scores need not be kept; for the
    same reason it has no derivatives under `torch.func`.

    Args:
        problem: The attention.
        kind: `dense` or `sparse`.

    Returns:
        A scalar in nats, in at least float32.
    """
    of_chunk = _dense_loss if kind == "dense" else _sparse_loss
    total = problem.index_q.new_zeros((), dtype=state_dtype(problem.index_q.dtype))
    for part in _parts(problem):
        total = total + checkpoint(of_chunk, part, use_reentrant=False, preserve_rng_state=False)
    return total / count_queries(problem)


def _parts(problem: IndexedProblem) -> Iterator[IndexedProblem]:
    """The chunks of queries, each with the keys up to its end."""
    length, chunk = problem.q.shape[1], _CHUNK
    if problem.q.is_cuda:
        alive = problem.q.shape[0] * problem.index_q.shape[2] * problem.k.shape[1]
        chunk = max(_CHUNK, _SCORES // max(1, alive))
    for start in range(0, length, chunk):
        yield problem.queries(start, min(start + chunk, length))


def _taken(problem: IndexedProblem) -> Bool[Tensor, "b t m"]:
    """`selected_keys` without sorting."""
    with torch.no_grad():
        visible = visible_keys(problem)
        scores = index_scores(problem.index_q, problem.index_k, problem.index_weight)
        scores = scores.masked_fill(~visible, -torch.inf)
        count = min(problem.top_k, scores.shape[-1])
        # What topk takes among equals is not defined; so it only finds the least score that is in.
        least = scores.topk(count, -1).values[..., -1:]
        above = scores > least
        level = (scores == least) & visible
        room = count - above.sum(-1, keepdim=True)
        return above | (level & (level.cumsum(-1) <= room))


def _indices(
    taken: Bool[Tensor, "b t m"], count: int
) -> tuple[Int64[Tensor, "b t c"], Bool[Tensor, "b t c"]]:
    """The taken keys in the order of time, and which of the c = count indices stand for one."""
    # The j-th key that is taken goes to slot j, all others to one slot too many.
    slot = torch.where(taken, taken.cumsum(-1) - 1, count)
    keys = torch.arange(taken.shape[-1], device=taken.device).expand(slot.shape)
    index = slot.new_zeros(*slot.shape[:-1], count + 1).scatter(-1, slot, keys)
    counts = torch.arange(count, device=taken.device) < taken.sum(-1, keepdim=True)
    return index[..., :count], counts


def _gather(x: Float[Tensor, "b m *rest"], index: Int64[Tensor, "b t c"]) -> Tensor:
    """`[b t c *rest]`: the keys or values at the indices."""
    batch, length = x.shape[:2]
    rows = index + length * torch.arange(batch, device=index.device)[:, None, None]
    gathered: Tensor = x.flatten(0, 1).index_select(0, rows.flatten()).unflatten(0, index.shape)
    return gathered


def _probabilities(
    problem: IndexedProblem, index: Int64[Tensor, "b t c"], counts: Bool[Tensor, "b t c"]
) -> Float[Tensor, "b t g r c"]:
    """Attention over the selected keys, for r query heads a key head."""
    dtype = state_dtype(problem.q.dtype)
    k = _gather(problem.k, index).to(dtype)
    q = problem.q.to(dtype).unflatten(2, (k.shape[3], -1))
    scores = problem.scale * torch.einsum("btgrk,btcgk->btgrc", q, k)
    counted = counts[:, :, None, None]
    return scores.masked_fill(~counted, torch.finfo(dtype).min).softmax(-1) * counted


def _attend(problem: IndexedProblem) -> Float[Tensor, "b t h v"]:
    """Select, gather, attend; or mask where gathering is not worth it."""
    taken = _taken(problem)
    if problem.k.shape[1] <= _WORTH_GATHERING * problem.top_k:
        dense = attention_over(problem, taken)
        v = repeat_key_heads(problem.v.to(dense.dtype), problem.q.shape[2])
        return torch.einsum("bhtm,bmhv->bthv", dense, v).to(problem.q.dtype)
    index, counts = _indices(taken, problem.top_k)
    weights = _probabilities(problem, index, counts)
    v = _gather(problem.v, index).to(weights.dtype)
    return torch.einsum("btgrc,btcgv->btgrv", weights, v).flatten(2, 3).to(problem.q.dtype)


def _dense_loss(problem: IndexedProblem) -> Float[Tensor, ""]:
    """Sum of the divergences over all visible keys."""
    return _masked_loss(problem, visible_keys(problem))


def _sparse_loss(problem: IndexedProblem) -> Float[Tensor, ""]:
    """Sum of the divergences over the selected keys."""
    taken = _taken(problem)
    if problem.k.shape[1] <= _WORTH_GATHERING * problem.top_k:
        return _masked_loss(problem, taken)
    index, counts = _indices(taken, problem.top_k)
    with torch.no_grad():
        target = _probabilities(problem, index, counts).mean((2, 3))
    dtype = state_dtype(problem.index_q.dtype)
    keys = _gather(problem.index_k, index).to(dtype)
    q, weight = problem.index_q.to(dtype), problem.index_weight.to(dtype)
    similar = torch.einsum("btni,btci->btnc", q, keys).relu()
    scores = torch.einsum("btn,btnc->btc", weight, similar)
    return divergence(target, scores, counts).sum()


def _masked_loss(problem: IndexedProblem, kept: Bool[Tensor, "#b t m"]) -> Float[Tensor, ""]:
    """Sum of the divergences over the kept keys, from the scores of all."""
    with torch.no_grad():
        target = attention_over(problem, kept).mean(1)
    scores = index_scores(problem.index_q, problem.index_k, problem.index_weight)
    return divergence(target, scores, kept).sum()
