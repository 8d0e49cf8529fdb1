"""What the chunked recurrence needs to know about the inside of a chunk.

Axes: n chunks (of every sequence and head), c factor steps of a chunk, t tokens of a chunk,
k key width, v value width. `G` is the cumulative log decay from the start of the chunk.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Chunks:
    """The inputs of the recurrence, cut into chunks that hold whole tokens.

    Attributes:
        q: Queries `[n t k]`, multiplied by the output scale.
        k: Keys `[n c k]`.
        v: Values `[n c v]`, multiplied by the write strength.
        log_decay: Log decay `[n c]`, `[n c k]` or None.
        beta: Erase strength `[n c]` or None.
    """

    q: Float[Tensor, "n t k"]
    k: Float[Tensor, "n c k"]
    v: Float[Tensor, "n c v"]
    log_decay: Float[Tensor, "n c"] | Float[Tensor, "n c k"] | None
    beta: Float[Tensor, "n c"] | None

    @property
    def num_factors(self) -> int:
        """Factor steps a token."""
        return self.k.shape[1] // self.q.shape[1]


@dataclass(frozen=True)
class ChunkTerms:
    """Products of keys and queries with the decay between them.

    Attributes:
        key_gram: `k_i . e^{G_i - G_j} k_j` `[n c c]`, meaningful below the diagonal.
        query_gram: `q_i . e^{G_i - G_j} k_j` `[n t c]`, zero where j comes after token i.
        keys_in: `e^{G_i} k_i` `[n c k]`: how step i reads the state before the chunk.
        queries_in: `e^{G_i} q_i` `[n t k]`: how token i reads that state.
        keys_out: `e^{G_end - G_j} k_j` `[n c k]`: how step j writes the state after the chunk.
        total: `e^{G_end}` `[n 1 1]` or `[n k 1]`, or None for no decay.
    """

    key_gram: Float[Tensor, "n c c"]
    query_gram: Float[Tensor, "n t c"]
    keys_in: Float[Tensor, "n c k"]
    queries_in: Float[Tensor, "n t k"]
    keys_out: Float[Tensor, "n c k"]
    total: Float[Tensor, "n 1 1"] | Float[Tensor, "n k 1"] | None


def undecayed_terms(chunks: Chunks) -> ChunkTerms:
    """The terms where nothing decays.

    Args:
        chunks: Inputs without a log decay.

    Returns:
        Their terms.
    """
    q, k = chunks.q, chunks.k
    size, num_factors = k.shape[1], chunks.num_factors
    grams = torch.cat([k, q], 1) @ k.mT
    causal = torch.ones(size, size, dtype=k.dtype, device=k.device).tril()
    return ChunkTerms(
        key_gram=grams[:, :size],
        query_gram=grams[:, size:] * causal[num_factors - 1 :: num_factors],
        keys_in=k,
        queries_in=q,
        keys_out=k,
        total=None,
    )
