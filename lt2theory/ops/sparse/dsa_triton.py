"""DeepSeek sparse attention on a GPU with memory linear in the length: masked tiles, or lists.

Both ways score and choose by blocks of queries (`index_launch`), with one block's scores in memory
at a time. Then either every tile of queries reads the key tiles in which it takes something, under
a mask (`masked_launch`), or every query gathers its own list of keys (`triton_gathered`). Tiles
cost as much as softmax attention and use tensor cores fully, lists cost `length * top_k` gathers:
which of them is estimated from the sizes.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from lt2theory.ops.attention_chunked import chunked_attention
from lt2theory.ops.sparse.dsa_reference import IndexedProblem
from lt2theory.ops.sparse.index_launch import (
    Indexer,
    Thresholds,
    blocks_of,
    choose,
    new_order,
    new_thresholds,
    score,
    selected_keys_lists,
)
from lt2theory.ops.sparse.masked_launch import (
    Gradients,
    Masks,
    add_gradients,
    attend,
    fill_masks,
)
from lt2theory.ops.sparse.tiling import Heads
from lt2theory.ops.sparse.workloads import IndexedWorkload, indexed_workload

_GATHER = 32
"""A key that one query head gathers costs about as much as so many that a tile of them reads."""


def triton_indexed_attention(problem: IndexedProblem) -> Float[Tensor, "b t h v"]:
    """DeepSeek sparse attention; see `reference_indexed_attention` for its meaning.

    Args:
        problem: The attention.

    Returns:
        The outputs, in the dtype of the queries.
    """
    if problem.q.shape[1] == 0 or problem.top_k >= problem.k.shape[1]:
        return chunked_attention(problem.plain())
    if prefers_lists(indexed_workload(problem)):
        return listed_indexed_attention(problem)
    return masked_indexed_attention(problem)


def prefers_lists(workload: IndexedWorkload) -> bool:
    """Whether lists are estimated to cost less than tiles.

    Args:
        workload: The attention.

    Returns:
        Whether what all key heads gather for the queries weighs less than what all query heads
        read in whole tiles of 64 queries.
    """
    length = workload.length
    read = workload.num_keys - length // 2
    if workload.window is not None:
        read = min(read, workload.window)
    tiles = -(-length // 64) * 64 * read * workload.num_heads
    lists = length * min(workload.top_k, read) * workload.key_heads
    return _GATHER * lists < tiles


def listed_indexed_attention(problem: IndexedProblem) -> Float[Tensor, "b t h v"]:
    """The attention through one list of keys a query.

    Args:
        problem: The attention, with `top_k` below the number of keys.

    Returns:
        The outputs, in the dtype of the queries.
    """
    from lt2theory.ops.sparse.triton_gathered import gathered_attention

    q = problem.q.unflatten(2, (problem.k.shape[2], -1))
    lists = selected_keys_lists(Indexer.of(problem))
    return gathered_attention(q, problem.k, problem.v, lists, problem.scale).flatten(2, 3)


def masked_indexed_attention(problem: IndexedProblem) -> Float[Tensor, "b t h v"]:
    """The attention through tiles under a mask.

    Args:
        problem: The attention.

    Returns:
        The outputs, in the dtype of the queries. Gradients have a fixed order of sums.
    """
    # torch leaves `apply` without types.
    o: Tensor = _MaskedAttention.apply(  # type: ignore[no-untyped-call]
        problem.q, problem.k, problem.v, Indexer.of(problem), problem.scale
    )
    return o


class _MaskedAttention(torch.autograd.Function):
    """Keeps two numbers a query of the choice; scores and masks are made again on the way back."""

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, indexer: Indexer, scale: float
    ) -> Tensor:
        heads = Heads(q.contiguous(), k.contiguous(), v.contiguous(), scale)
        output = q.new_empty(*q.shape[:3], v.shape[-1])
        lse = q.new_empty(q.shape[:3], dtype=torch.float32)
        order, thresholds = new_order(indexer), new_thresholds(indexer)
        masks = Masks.like(order)
        for start, stop in blocks_of(indexer):
            block = score(indexer, start, stop, order)
            choose(indexer, block, thresholds)
            fill_masks(block, thresholds, masks)
            attend(heads, block, masks, output, lse)
        ctx.save_for_backward(
            *(heads.q, heads.k, heads.v, output, lse, thresholds.least, thresholds.cut),
            *(indexer.q, indexer.k, indexer.weight, indexer.query_segments, indexer.key_segments),
        )
        ctx.numbers = (indexer.window, indexer.top_k)
        ctx.scale = scale
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, output, lse, least, cut, *index = ctx.saved_tensors
        heads, thresholds = Heads(q, k, v, ctx.scale), Thresholds(least, cut)
        indexer = Indexer(*index, *ctx.numbers)
        grad = grad.contiguous()
        delta = torch.einsum("bthv,bthv->bth", grad.float(), output.float())
        dk, dv = (torch.zeros_like(x, dtype=torch.float32) for x in (k, v))
        gradients = Gradients(grad, lse, delta, torch.empty_like(q), dk, dv)
        order = new_order(indexer)
        masks = Masks.like(order)
        for start, stop in blocks_of(indexer):
            block = score(indexer, start, stop, order)
            fill_masks(block, thresholds, masks)
            add_gradients(heads, block, masks, gradients)
        return gradients.q, dk.to(k.dtype), dv.to(v.dtype), None, None
