"""Chunk terms for one decay a channel, exact and safe whatever the decay.

A product `k_i . e^{G_i - G_j} k_j` over channels cannot be taken as (decay matrix) * (Gram
matrix). Halving the chunk makes it a product of two matrices again: for i in the second half and
j in the first, `e^{G_i - G_mid} k_i` and `e^{G_mid - G_j} k_j` decay towards the middle, so both
factors are at most 1. The halves are treated likewise, down to single tokens. Going upwards, a
block keeps its rows decayed from its start and its columns decayed to its end, so that merging
two blocks costs multiplications by the total decay of the other and no exponential at all.

Where the caller vouches for a lower bound on the log decay, the first blocks may hold several
tokens: `e^{G_i - G_j}` is split at their middle, with exponents of either sign that the bound
keeps small. That saves the lower levels.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from lt2theory.ops.chunk_terms import Chunks, ChunkTerms

# How far exponents may spread between the first and last step of a bounded block; half of it on
# either side of the middle leaves a factor of 1e3 to the largest number of the dtype.
_SPREAD = {torch.float32: 80.0, torch.float64: 700.0}


@dataclass(frozen=True)
class _Blocks:
    """All blocks of one size; r rows and c columns (keys).

    The rows of a token are its keys and after them its query; only the query where
    nothing is erased.

    Attributes:
        rows: `e^{G_i - G_start}` times row i.
        columns: `e^{G_end - G_j}` times key j.
        total: `e^{G_end - G_start}`.
        gram: Products of rows and columns within a block, with the decay between them.
    """

    rows: Float[Tensor, "m r k"]
    columns: Float[Tensor, "m c k"]
    total: Float[Tensor, "m 1 k"]
    gram: Float[Tensor, "m r c"]


def vector_terms(chunks: Chunks, min_log_decay: float = -math.inf) -> ChunkTerms:
    """The terms where every channel has a decay of its own.

    Args:
        chunks: Inputs with a log decay `[n c k]`, whose chunks hold a power of two of tokens.
        min_log_decay: A number that no log decay falls below, if the caller knows one. Results
            are wrong, or not finite, if it does.

    Returns:
        Their terms.
    """
    num_chunks, num_tokens, width = chunks.q.shape
    num_factors = chunks.num_factors
    block_tokens = 1
    while (
        block_tokens < num_tokens
        and 2 * block_tokens * num_factors * -min_log_decay <= _SPREAD[chunks.k.dtype]
    ):
        block_tokens *= 2
    bounded = block_tokens > 1
    blocks = _bounded_blocks(chunks, block_tokens) if bounded else _token_blocks(chunks)
    while block_tokens < num_tokens:
        blocks = _merge(blocks)
        block_tokens *= 2
    rows = blocks.rows.view(num_chunks, num_tokens, -1, width)
    gram = blocks.gram.view(num_chunks, num_tokens, -1, num_tokens * num_factors)
    if chunks.beta is None:
        return ChunkTerms(gram[:, :, 0], rows[:, :, 0], blocks.columns, blocks.total.mT)
    key_rows, query_rows = rows.split([num_factors, 1], 2)
    key_gram, query_gram = gram.split([num_factors, 1], 2)
    return ChunkTerms(
        query_gram=query_gram.squeeze(2),
        queries_in=query_rows.squeeze(2),
        keys_out=blocks.columns,
        total=blocks.total.mT,
        key_gram=key_gram.flatten(1, 2),
        keys_in=key_rows.flatten(1, 2),
    )


def _token_blocks(chunks: Chunks) -> _Blocks:
    """Blocks of one token."""
    assert chunks.log_decay is not None
    num_factors, width = chunks.num_factors, chunks.q.shape[-1]
    q = chunks.q.reshape(-1, 1, width)
    k = chunks.k.reshape(-1, num_factors, width)
    log_decay = chunks.log_decay.reshape(-1, num_factors, width)
    rows = q if chunks.beta is None else torch.cat([k, q], 1)
    if num_factors == 1:
        alpha = log_decay.exp()
        gram = (q * k).sum(-1, keepdim=True)
        if chunks.beta is not None:
            gram = torch.cat([torch.zeros_like(gram), gram], 1)
        return _Blocks(rows * alpha, k, alpha, gram)
    between = _masked_decay(log_decay)
    from_start = log_decay.cumsum(1).exp()
    total = from_start[:, -1:]
    # The query reads after the last factor, so it shares that factor's decay.
    if chunks.beta is None:
        row_decay, from_start = between[:, -1:], total
    else:
        row_decay = torch.cat([between, between[:, -1:]], 1)
        from_start = torch.cat([from_start, total], 1)
    gram = (rows[:, :, None] * row_decay * k[:, None]).sum(-1)
    return _Blocks(rows * from_start, between[:, -1] * k, total, gram)


def _bounded_blocks(chunks: Chunks, num_tokens: int) -> _Blocks:
    """Blocks of several tokens, of which the sum of all log decays is bounded."""
    assert chunks.log_decay is not None
    num_factors, width = chunks.num_factors, chunks.q.shape[-1]
    size = num_tokens * num_factors
    k = chunks.k.reshape(-1, size, width)
    summed = chunks.log_decay.reshape(-1, size, width).cumsum(1)
    middle, end = summed[:, size // 2, None], summed[:, -1:]
    rows = chunks.q.reshape(-1, num_tokens, 1, width)
    row_sums = summed.unflatten(1, (num_tokens, num_factors))
    row_steps = torch.arange(size, device=k.device).view(num_tokens, num_factors)
    if chunks.beta is None:
        row_sums, row_steps = row_sums[:, :, -1:], row_steps[:, -1:]
    else:
        rows = torch.cat([k.unflatten(1, (num_tokens, num_factors)), rows], 2)
        row_sums = torch.cat([row_sums, row_sums[:, :, -1:]], 2)
        row_steps = torch.cat([row_steps, row_steps[:, -1:]], 1)
    rows, row_sums = rows.flatten(1, 2), row_sums.flatten(1, 2)
    causal = row_steps.flatten()[:, None] >= torch.arange(size, device=k.device)
    gram = (rows * (row_sums - middle).exp()) @ (k * (middle - summed).exp()).mT
    return _Blocks(rows * row_sums.exp(), k * (end - summed).exp(), end.exp(), gram * causal)


def _masked_decay(log_decay: Float[Tensor, "m f k"]) -> Float[Tensor, "m f f k"]:
    """`exp(G_i - G_j)` a channel for j at most i, zero elsewhere, without a difference of sums."""
    num_factors = log_decay.shape[1]
    ones = torch.ones(num_factors, num_factors, dtype=log_decay.dtype, device=log_decay.device)
    future = torch.full_like(ones, -torch.inf).triu(1)
    after = log_decay[:, :, None] * ones.tril(-1)[..., None]
    return (after.cumsum(1) + future[..., None]).exp()


def _merge(blocks: _Blocks) -> _Blocks:
    """Blocks of twice the size."""
    first_rows, second_rows = blocks.rows.unflatten(0, (-1, 2)).unbind(1)
    first_columns, second_columns = blocks.columns.unflatten(0, (-1, 2)).unbind(1)
    first_total, second_total = blocks.total.unflatten(0, (-1, 2)).unbind(1)
    first_gram, second_gram = blocks.gram.unflatten(0, (-1, 2)).unbind(1)
    across = second_rows @ first_columns.mT
    upper = torch.cat([first_gram, torch.zeros_like(first_gram)], -1)
    lower = torch.cat([across, second_gram], -1)
    return _Blocks(
        rows=torch.cat([first_rows, second_rows * first_total], 1),
        columns=torch.cat([first_columns * second_total, second_columns], 1),
        total=first_total * second_total,
        gram=torch.cat([upper, lower], 1),
    )
