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
from lt2theory.ops.triangular import block_lower

# How far exponents may spread between the first and last step of a bounded block; half of it on
# either side of the middle leaves a factor of 1e3 to the largest number of the dtype.
_SPREAD = {torch.float32: 80.0, torch.float64: 700.0}


@dataclass(frozen=True)
class _Blocks:
    """All blocks of one size, m of them, with c steps and t tokens each.

    Attributes:
        queries: `e^{G_i - G_start}` times query i.
        keys: `e^{G_i - G_start}` times key i, or None where nothing is erased.
        columns: `e^{G_end - G_j}` times key j.
        total: `e^{G_end - G_start}`.
    """

    queries: Float[Tensor, "m t k"]
    keys: Float[Tensor, "m c k"] | None
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
    blocks, query_gram, key_gram = start
    query_grams, key_grams = [query_gram], [key_gram]
    while block_tokens < num_tokens:
        blocks, query_gram, key_gram = _merge(blocks)
        query_grams.append(query_gram)
        key_grams.append(key_gram)
        block_tokens *= 2
    erased = [gram for gram in key_grams if gram is not None]
    return ChunkTerms(
        query_gram=block_lower(query_grams),
        queries_in=blocks.queries,
        keys_out=blocks.columns,
        total=blocks.total.mT,
        key_gram=block_lower(erased) if erased else None,
        keys_in=blocks.keys,
    )


def _token_blocks(chunks: Chunks) -> tuple[_Blocks, Tensor, Tensor | None]:
    """Blocks of one token, and the products within them."""
    assert chunks.log_decay is not None
    num_factors, width = chunks.num_factors, chunks.q.shape[-1]
    q = chunks.q.reshape(-1, 1, width)
    k = chunks.k.reshape(-1, num_factors, width)
    log_decay = chunks.log_decay.reshape(-1, num_factors, width)
    erases = chunks.beta is not None
    if num_factors == 1:
        alpha = log_decay.exp()
        gram = (q * k).sum(-1, keepdim=True)
        blocks = _Blocks(q * alpha, k * alpha if erases else None, k, alpha)
        return blocks, gram, torch.zeros_like(gram) if erases else None
    between = _masked_decay(log_decay)
    from_start = log_decay.cumsum(1).exp()
    total = from_start[:, -1:]
    decayed = between * k[:, None]
    blocks = _Blocks(q * total, k * from_start if erases else None, decayed[:, -1], total)
    key_gram = (k[:, :, None] * decayed).sum(-1) if erases else None
    return blocks, q @ decayed[:, -1].mT, key_gram


def _bounded_blocks(chunks: Chunks, num_tokens: int) -> tuple[_Blocks, Tensor, Tensor | None]:
    """Blocks of several tokens whose log decays have a bounded sum, and the products in them."""
    assert chunks.log_decay is not None
    num_factors, width = chunks.num_factors, chunks.q.shape[-1]
    size = num_tokens * num_factors
    q = chunks.q.reshape(-1, num_tokens, width)
    k = chunks.k.reshape(-1, size, width)
    summed = chunks.log_decay.reshape(-1, size, width).cumsum(1)
    middle, end = summed[:, size // 2, None], summed[:, -1:]
    late, early = (summed - middle).exp(), (middle - summed).exp()
    from_start = summed.exp()
    last = slice(num_factors - 1, None, num_factors)
    causal = torch.ones(size, size, dtype=k.dtype, device=k.device).tril()
    columns = (k * early).mT
    query_gram = ((q * late[:, last]) @ columns) * causal[last]
    columns_out = k * (end - summed).exp()
    queries = q * from_start[:, last]
    if chunks.beta is None:
        return _Blocks(queries, None, columns_out, end.exp()), query_gram, None
    key_gram = ((k * late) @ columns) * causal
    return _Blocks(queries, k * from_start, columns_out, end.exp()), query_gram, key_gram


def _merge(blocks: _Blocks) -> tuple[_Blocks, Tensor, Tensor | None]:
    """Blocks of twice the size, and the products of their second halves with their first."""
    first_total, second_total = _halves(blocks.total)
    first_columns, second_columns = _halves(blocks.columns)
    first_queries, second_queries = _halves(blocks.queries)
    keys, key_gram = None, None
    if blocks.keys is not None:
        first_keys, second_keys = _halves(blocks.keys)
        key_gram = second_keys @ first_columns.mT
        keys = torch.cat([first_keys, second_keys * first_total], 1)
    merged = _Blocks(
        queries=torch.cat([first_queries, second_queries * first_total], 1),
        keys=keys,
        columns=torch.cat([first_columns * second_total, second_columns], 1),
        total=first_total * second_total,
    )
    return merged, second_queries @ first_columns.mT, key_gram


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """The first and the second of every pair of blocks."""
    first, second = x.view(-1, 2, *x.shape[1:]).unbind(1)
    return first, second


def _masked_decay(log_decay: Float[Tensor, "m f k"]) -> Float[Tensor, "m f f k"]:
    """`exp(G_i - G_j)` a channel for j at most i, zero elsewhere, without a difference of sums."""
    num_factors = log_decay.shape[1]
    ones = torch.ones(num_factors, num_factors, dtype=log_decay.dtype, device=log_decay.device)
    future = torch.full_like(ones, -torch.inf).triu(1)
    after = log_decay[:, :, None] * ones.tril(-1)[..., None]
    return (after.cumsum(1) + future[..., None]).exp()
