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
from torch.nn import functional as F

from lt2theory.ops.chunked.running_sum import running_sum
from lt2theory.ops.chunked.terms import Chunks, ChunkTerms
from lt2theory.ops.chunked.triangular import block_lower

# How far exponents may spread between the first and last step of a bounded block; half of it on
# either side of the middle leaves a factor of 1e3 to the largest number of the dtype.
_SPREAD = {torch.float32: 80.0, torch.float64: 700.0}


@dataclass(frozen=True)
class _Blocks:
    """All blocks of one size, m of them, with c steps and t tokens each.

    Attributes:
        queries: `e^{G_i - G_start}` times query i.
        erasers: `e^{G_i - G_start}` times eraser i, or None where nothing is erased.
        columns: `e^{G_end - G_j}` times key j.
        total: `e^{G_end - G_start}`.
    """

    queries: Float[Tensor, "m t k"]
    erasers: Float[Tensor, "m c k"] | None
    columns: Float[Tensor, "m c k"]
    total: Float[Tensor, "m 1 k"]


def vector_terms(chunks: Chunks, min_log_decay: float = -math.inf) -> ChunkTerms:
    """The terms where every channel has a decay of its own.

    Args:
        chunks: Inputs with a log decay `[n c k]`, whose chunks hold a power of two of tokens.
        min_log_decay: A number that no log decay falls below, if the caller knows one. Results
            are wrong, or not finite, if it does.

    Returns:
        Their terms.
    """
    num_tokens, num_factors = chunks.q.shape[1], chunks.num_factors
    block_tokens = 1
    while (
        block_tokens < num_tokens
        and 2 * block_tokens * num_factors * -min_log_decay <= _SPREAD[chunks.k.dtype]
    ):
        block_tokens *= 2
    bounded = block_tokens > 1
    start = _bounded_blocks(chunks, block_tokens) if bounded else _token_blocks(chunks)
    blocks, query_gram, eraser_gram = start
    query_grams, eraser_grams = [query_gram], [eraser_gram]
    while block_tokens < num_tokens:
        blocks, query_gram, eraser_gram = _merge(blocks)
        query_grams.append(query_gram)
        eraser_grams.append(eraser_gram)
        block_tokens *= 2
    erased = [gram for gram in eraser_grams if gram is not None]
    return ChunkTerms(
        query_gram=block_lower(query_grams),
        queries_in=blocks.queries,
        keys_out=blocks.columns,
        total=blocks.total.mT,
        eraser_gram=block_lower(erased) if erased else None,
        erasers_in=blocks.erasers,
    )


def _token_blocks(chunks: Chunks) -> tuple[_Blocks, Tensor, Tensor | None]:
    """Blocks of one token, and the products within them, one factor at a time."""
    assert chunks.log_decay is not None
    num_factors, width = chunks.num_factors, chunks.q.shape[-1]
    q = chunks.q.reshape(-1, 1, width)
    keys = chunks.k.reshape(-1, num_factors, width).split(1, 1)
    alphas = chunks.log_decay.exp().reshape(-1, num_factors, width).split(1, 1)
    erasers = None
    if chunks.erasers is not None:
        erasers = chunks.erasers.reshape(-1, num_factors, width).split(1, 1)
    columns, from_start = keys[0], [alphas[0]]
    rows = [q.new_zeros(len(q), num_factors)]
    for f in range(1, num_factors):
        columns = columns * alphas[f]
        from_start.append(from_start[-1] * alphas[f])
        if erasers is not None:
            rows.append(F.pad((erasers[f] * columns).sum(-1), (0, num_factors - f)))
        columns = torch.cat([columns, keys[f]], 1)
    query_gram = (q * columns).sum(-1).unsqueeze(1)
    queries, total = q * from_start[-1], from_start[-1]
    if erasers is None:
        return _Blocks(queries, None, columns, total), query_gram, None
    decayed = torch.cat([e * a for e, a in zip(erasers, from_start, strict=True)], 1)
    return _Blocks(queries, decayed, columns, total), query_gram, torch.stack(rows, 1)


def _bounded_blocks(chunks: Chunks, num_tokens: int) -> tuple[_Blocks, Tensor, Tensor | None]:
    """Blocks of several tokens whose log decays have a bounded sum, and the products in them."""
    assert chunks.log_decay is not None
    num_factors, width = chunks.num_factors, chunks.q.shape[-1]
    size = num_tokens * num_factors
    q = chunks.q.reshape(-1, num_tokens, width)
    k = chunks.k.reshape(-1, size, width)
    summed = running_sum(chunks.log_decay.reshape(-1, size, width))
    middle, end = summed[:, size // 2, None], summed[:, -1:]
    late, early = (summed - middle).exp(), (middle - summed).exp()
    from_start = summed.exp()
    last = slice(num_factors - 1, None, num_factors)
    causal = torch.ones(size, size, dtype=k.dtype, device=k.device).tril()
    columns = (k * early).mT
    query_gram = ((q * late[:, last]) @ columns) * causal[last]
    columns_out = k * (end - summed).exp()
    queries = q * from_start[:, last]
    if chunks.erasers is None:
        return _Blocks(queries, None, columns_out, end.exp()), query_gram, None
    erasers = chunks.erasers.reshape(k.shape)
    eraser_gram = ((erasers * late) @ columns) * causal
    blocks = _Blocks(queries, erasers * from_start, columns_out, end.exp())
    return blocks, query_gram, eraser_gram


def _merge(blocks: _Blocks) -> tuple[_Blocks, Tensor, Tensor | None]:
    """Blocks of twice the size, and the products of their second halves with their first."""
    first_total, second_total = _halves(blocks.total)
    first_columns, second_columns = _halves(blocks.columns)
    first_queries, second_queries = _halves(blocks.queries)
    erasers, eraser_gram = None, None
    if blocks.erasers is not None:
        first_erasers, second_erasers = _halves(blocks.erasers)
        eraser_gram = second_erasers @ first_columns.mT
        erasers = torch.cat([first_erasers, second_erasers * first_total], 1)
    merged = _Blocks(
        queries=torch.cat([first_queries, second_queries * first_total], 1),
        erasers=erasers,
        columns=torch.cat([first_columns * second_total, second_columns], 1),
        total=first_total * second_total,
    )
    return merged, second_queries @ first_columns.mT, eraser_gram


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """The first and the second of every pair of blocks."""
    first, second = x.view(-1, 2, *x.shape[1:]).unbind(1)
    return first, second
