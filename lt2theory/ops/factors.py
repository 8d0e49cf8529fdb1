"""What a mixer hands to its op: the factors of a recurrence, or the inputs of an attention.

Axes: b batch, t time, m keys, f factors a token, h heads, g key-value heads, k key width,
v value width.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

FactorOrder = Literal["decay_first", "erase_first"]
"""Which of decay and erasure acts on the state first."""


@dataclass(frozen=True)
class Factors:
    """Inputs of one linear recurrence, with the factor axis always present.

    Each token applies its f factors in order, every one with its own decay, and the query reads
    after the last. Under `accumulate` f grows by the loops; a plain mixer has f = 1.

    Attributes:
        q: Queries `[b t h k]`.
        k: Keys `[b t f h k]`.
        v: Values `[b t f h v]`.
        log_decay: Natural log of alpha, never positive: `[b t f h]` (one scalar a head),
            `[b t f h k]` (one a channel) or None (no decay).
        beta: Erase strength `[b t f h]`, or None (no erasure).
        write: Write strength `[b t f h]`, or None (beta where there is one, else 1).
        log_write: Natural log of the write strength `[b t f h]`, of any size, in place of `write`.
            Such factors are normalised: they run with a stabiliser and divide what is read by the
            weights read (`lt2theory.ops.normalised`; xLSTM, arXiv 2405.04517).
        scale: Factor on the read-out, or None for `k ** -0.5`.
        skip: Weight `[h]` of the token's own last value in the output, past the state (the D of
            state-space models), or None.
        order: `decay_first` is `(I - beta k k^T) D`, `erase_first` is `D (I - beta k k^T)`.
    """

    q: Float[Tensor, "b t h k"]
    k: Float[Tensor, "b t f h k"]
    v: Float[Tensor, "b t f h v"]
    log_decay: Float[Tensor, "b t f h"] | Float[Tensor, "b t f h k"] | None = None
    beta: Float[Tensor, "b t f h"] | None = None
    write: Float[Tensor, "b t f h"] | None = None
    log_write: Float[Tensor, "b t f h"] | None = None
    scale: float | None = None
    skip: Float[Tensor, " h"] | None = None
    order: FactorOrder = "decay_first"

    @property
    def num_factors(self) -> int:
        """Factors a token."""
        return self.k.shape[2]

    def after(self, earlier: "Factors | None") -> "Factors":
        """These factors preceded, at every token, by those of `earlier`; the query is ours.

        This is the whole of the `accumulate` semantics (docs/architecture.md).

        Args:
            earlier: Factors of the same mixer in earlier loops, or None before the first.

        Returns:
            The joined factors.
        """
        return self if earlier is None else join_factors((earlier, self))


def join_factors(parts: Sequence[Factors]) -> Factors:
    """The factors of several loops, one after the other at every token.

    Args:
        parts: Factors of one mixer, the earliest first; at least one.

    Returns:
        The joined factors; all but the factors themselves (query, scale, ...) is the last one's.
    """
    if len(parts) == 1:
        return parts[0]
    return replace(
        parts[-1],
        k=torch.cat([part.k for part in parts], 2),
        v=torch.cat([part.v for part in parts], 2),
        log_decay=_join([part.log_decay for part in parts]),
        beta=_join([part.beta for part in parts]),
        write=_join([part.write for part in parts]),
        log_write=_join([part.log_write for part in parts]),
    )


@dataclass(frozen=True)
class AttentionInputs:
    """Inputs of one softmax attention.

    A mixer prepares the keys of this call's tokens (m = t); the loop state puts cached ones in
    front. The last query and the last key are the same token.

    Attributes:
        q: Queries `[b t h k]`.
        k: Keys `[b m g k]`, g dividing h.
        v: Values `[b m g v]`.
        window: Tokens that a query sees, itself included; None sees its whole past.
        scale: Factor on the scores, or None for `k ** -0.5`.
    """

    q: Float[Tensor, "b t h k"]
    k: Float[Tensor, "b m g k"]
    v: Float[Tensor, "b m g v"]
    window: int | None = None
    scale: float | None = None


@dataclass(frozen=True)
class BlockSparseInputs(AttentionInputs):
    """Inputs of native sparse attention: three branches over the same keys and values.

    `o = g_1 compressed + g_2 selected + g_3 window` (NSA, arXiv 2502.11089); blocks count from the
    first token of the query's segment.

    Attributes:
        gates: Weights of the branches `[b t h 3]`.
        block_size: Tokens of a block.
        num_blocks: Blocks that a query selects, its own among them.
    """

    gates: Float[Tensor, "b t h 3"] = field(kw_only=True)
    block_size: int = field(kw_only=True)
    num_blocks: int = field(kw_only=True)


@dataclass(frozen=True)
class IndexedInputs(AttentionInputs):
    """Inputs of attention to the tokens that an indexer scores highest (DeepSeek sparse attention).

    Score of key s for query t: `sum_n index_weight_tn relu(index_q_tn . index_k_s)`.

    Attributes:
        index_q: Queries of the indexer's heads `[b t n i]`.
        index_k: Its keys, shared by its heads `[b m i]`.
        index_weight: Weights of its heads `[b t n]`.
        top_k: Keys that a query attends to.
    """

    index_q: Float[Tensor, "b t n i"] = field(kw_only=True)
    index_k: Float[Tensor, "b m i"] = field(kw_only=True)
    index_weight: Float[Tensor, "b t n"] = field(kw_only=True)
    top_k: int = field(kw_only=True)


def _join(parts: Sequence[Tensor | None]) -> Tensor | None:
    """Concatenate along the factor axis; all come from one mixer, so all exist or none."""
    present = [part for part in parts if part is not None]
    assert len(present) in (0, len(parts)), "factors of different mixers cannot be joined"
    return torch.cat(present, 2) if present else None
