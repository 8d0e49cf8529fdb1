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
        q: Queries `[n t k]`.
        k: Keys `[n c k]`.
        v: Values `[n c v]`, multiplied by the write strength.
        log_decay: Log decay `[n c]`, `[n c k]` or None.
        erasers: Keys multiplied by minus the erase strength `[n c k]`, or None.
        batch: Sequences; n runs over chunks, sequences and heads, heads fastest.
        heads: Heads.
    """

    q: Float[Tensor, "n t k"]
    k: Float[Tensor, "n c k"]
    v: Float[Tensor, "n c v"]
    log_decay: Float[Tensor, "n c"] | Float[Tensor, "n c k"] | None
    erasers: Float[Tensor, "n c k"] | None
    batch: int
    heads: int

    @property
    def num_factors(self) -> int:
        """Factor steps a token."""
        return self.k.shape[1] // self.q.shape[1]


@dataclass(frozen=True)
class ChunkTerms:
    """Products of queries, erasers and keys with the decay between them.

    Attributes:
        query_gram: `q_i . e^{G_i - G_j} k_j` `[n t c]`, zero where j comes after token i.
        queries_in: `e^{G_i} q_i` `[n t k]`: how token i reads the state before the chunk.
        keys_out: `e^{G_end - G_j} k_j` `[n c k]`: how step j writes the state after the chunk.
        total: `e^{G_end}` `[n 1 1]` or `[n k 1]`, or None for no decay.
        eraser_gram: `e_i . e^{G_i - G_j} k_j` `[n c c]` for erasers e, meaningful below the
            diagonal: what step i takes off the write of step j. None where nothing is erased.
        erasers_in: `e^{G_i} e_i` `[n c k]`: what step i takes off the state before the chunk.
            None where nothing is erased.
    """

    query_gram: Float[Tensor, "n t c"]
    queries_in: Float[Tensor, "n t k"]
    keys_out: Float[Tensor, "n c k"]
    total: Float[Tensor, "n 1 1"] | Float[Tensor, "n k 1"] | None
    eraser_gram: Float[Tensor, "n c c"] | None = None
    erasers_in: Float[Tensor, "n c k"] | None = None


def undecayed_terms(chunks: Chunks) -> ChunkTerms:
    """The terms where nothing decays.

    Args:
        chunks: Inputs without a log decay.

    Returns:
        Their terms.
    """
    q, k, erasers = chunks.q, chunks.k, chunks.erasers
    size, num_factors = k.shape[1], chunks.num_factors
    causal = torch.ones(size, size, dtype=k.dtype, device=k.device).tril()
    return ChunkTerms(
        query_gram=(q @ k.mT) * causal[num_factors - 1 :: num_factors],
        queries_in=q,
        keys_out=k,
        total=None,
        eraser_gram=None if erasers is None else erasers @ k.mT,
        erasers_in=erasers,
    )
