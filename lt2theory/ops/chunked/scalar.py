"""Chunk terms for one decay a head: a matrix of decays between steps, computed in log space."""

import torch
from jaxtyping import Float
from torch import Tensor

from lt2theory.ops.chunked.running_sum import running_sum
from lt2theory.ops.chunked.terms import Chunks, ChunkTerms


def scalar_terms(chunks: Chunks) -> ChunkTerms:
    """The terms where all channels of a head decay alike.

    The decay between steps j and i is `exp(G_i - G_j)` with the exponent made minus infinity
    *before* the exponential where j comes after i, so nothing positive is ever exponentiated.
    G is summed in float64: after a reset of -1000 a float32 sum would keep only three digits of
    the small decays behind it.

    Args:
        chunks: Inputs with a log decay `[n c]`.

    Returns:
        Their terms.
    """
    q, k, erasers, log_decay = chunks.q, chunks.k, chunks.erasers, chunks.log_decay
    assert log_decay is not None
    num_factors = chunks.num_factors
    summed = running_sum(log_decay.double())
    between = _masked_decay(summed, k.dtype)
    from_start = summed.to(k.dtype).exp().unsqueeze(-1)
    to_end = (summed[:, -1:] - summed).to(k.dtype).exp().unsqueeze(-1)
    token_between, token_from_start = between, from_start
    if num_factors > 1:
        last = slice(num_factors - 1, None, num_factors)
        token_between, token_from_start = between[:, last], from_start[:, last]
    return ChunkTerms(
        query_gram=(q @ k.mT) * token_between,
        queries_in=q * token_from_start,
        keys_out=k * to_end,
        total=from_start[:, -1:],
        eraser_gram=None if erasers is None else (erasers @ k.mT) * between,
        erasers_in=None if erasers is None else erasers * from_start,
    )


def _masked_decay(summed: Float[Tensor, "n c"], dtype: torch.dtype) -> Float[Tensor, "n c c"]:
    """`exp(G_i - G_j)` for j at most i, zero elsewhere."""
    size = summed.shape[1]
    future = torch.full((size, size), -torch.inf, dtype=dtype, device=summed.device).triu(1)
    return (summed[:, :, None] - summed[:, None, :]).to(dtype).add_(future).exp_()
