"""The self-tests of kernels for sparse attentions: see `selftest`.

A choice of keys is no smooth function: where two are equally important but for a rounding error,
kernel and twin may each be right and differ. So the problems leave no such doubt.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from lt2theory.ops.selftest import BATCH, LENGTH
from lt2theory.ops.selftest_attention import WINDOW, HeadsClass
from lt2theory.ops.sparse.dsa_reference import (
    IndexedAttention,
    IndexedProblem,
    reference_indexed_attention,
)
from lt2theory.ops.sparse.nsa_reference import (
    BlockAttentionRunner,
    BlockSparseProblem,
    positions_in_segment,
    reference_block_sparse,
)

_MOST_KEYS = 2048
"""Keys before the first query, at most: the twin's scores are dense."""


@dataclass(frozen=True)
class BlockSparseClass(HeadsClass[BlockAttentionRunner]):
    """What a verdict on kernels of native sparse attention holds for.

    Attributes:
        block_size: Tokens of a block.
        num_blocks: Blocks that a query selects, its own among them.
    """

    block_size: int
    num_blocks: int

    seed: ClassVar[int] = 642

    @override
    def draw(self, generator: torch.Generator) -> dict[str, Tensor]:
        # Every query of an unbroken stream has three blocks more than it may take.
        past = min(self.num_blocks + 2, _MOST_KEYS // self.block_size) * self.block_size
        drawn = self.draw_heads(LENGTH + past, generator)
        gates = torch.rand(
            BATCH, LENGTH, self.num_heads, 3, generator=generator, dtype=torch.float64
        )
        drawn = {**drawn, "q": drawn["q"].abs() + 0.5, "gates": gates}
        if self.num_blocks > 1:
            # As many blocks of every segment as a query may take matter, its first among them; the
            # others score some 20 less, so that it is no matter which of them fill the choice up.
            block = positions_in_segment(self._problem(drawn)) // self.block_size
            ranks = torch.rand(BATCH, int(block.max()) + 1, generator=generator)
            ranks[:, 0] = -1.0
            low = ranks.argsort(1).argsort(1) >= self.num_blocks - 1
            shift = 16 * self.key_width**-0.5 * low.gather(1, block.expand(BATCH, -1))
            drawn["k"] -= shift[:, :, None, None]
        return drawn

    @override
    def cast(self, name: str, x: Tensor) -> Tensor:
        x = super().cast(name, x)
        return x.float() if name == "gates" else x

    @override
    def compute(self, run: BlockAttentionRunner, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return {"output": run(self._problem(inputs))}

    @override
    def twin(self) -> BlockAttentionRunner:
        return reference_block_sparse

    def _problem(self, inputs: Mapping[str, Tensor]) -> BlockSparseProblem:
        segments = _runs(inputs["k"]) if self.segmented else None
        return BlockSparseProblem(
            inputs["q"],
            inputs["k"],
            inputs["v"],
            window=WINDOW,
            scale=self.key_width**-0.5,
            query_segments=None if segments is None else segments[:, -LENGTH:],
            key_segments=segments,
            gates=inputs["gates"],
            block_size=self.block_size,
            num_blocks=self.num_blocks,
        )


@dataclass(frozen=True)
class IndexedClass(HeadsClass[IndexedAttention]):
    """What a verdict on kernels of DeepSeek sparse attention holds for.

    Attributes:
        top_k: Keys that a query attends to.
        index_heads: Heads of the indexer.
        index_width: Their width.
    """

    top_k: int
    index_heads: int
    index_width: int

    seed: ClassVar[int] = 643

    @override
    def draw(self, generator: torch.Generator) -> dict[str, Tensor]:
        num_keys = LENGTH + min(self.top_k, _MOST_KEYS)
        sizes = {
            "index_q": (LENGTH, self.index_heads, self.index_width),
            "index_k": (num_keys, self.index_width),
            "index_weight": (LENGTH, self.index_heads),
        }

        def whole(*size: int) -> Tensor:
            """Whole numbers: scores are exact in every dtype, and ties have an order."""
            return torch.randint(-1, 2, (BATCH, *size), generator=generator).double()

        index = {name: whole(*size) for name, size in sizes.items()}
        return {**self.draw_heads(num_keys, generator), **index}

    @override
    def compute(self, run: IndexedAttention, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        segments = _runs(inputs["k"]) if self.segmented else None
        problem = IndexedProblem(
            inputs["q"],
            inputs["k"],
            inputs["v"],
            window=None,
            scale=self.key_width**-0.5,
            query_segments=None if segments is None else segments[:, -LENGTH:],
            key_segments=segments,
            index_q=inputs["index_q"],
            index_k=inputs["index_k"],
            index_weight=inputs["index_weight"],
            top_k=min(self.top_k, _MOST_KEYS),
        )
        return {"output": run(problem)}

    @override
    def twin(self) -> IndexedAttention:
        return reference_indexed_attention


def _runs(keys: Tensor) -> Tensor:
    """Segments `[2 m]`: padding in front, a segment of one token, and borders among the queries."""
    index = torch.arange(keys.shape[1], device=keys.device)
    late = index - keys.shape[1]
    padded = torch.where(index < 7, -1, (late >= -40).long())
    return torch.stack([padded, (index >= 1).long() + (late >= -77).long() + (late >= -76).long()])
