"""Native sparse attention as spans: every branch lets a query read one run of keys or of blocks.

Segments are runs of tokens and blocks are numbered by their last tokens, so what a query sees of a
branch is `low <= place < high`: of tokens for the window and for its own block, of complete blocks
for the compressed branch and for the choice. Both bounds never fall from one query to the next.

A window alone (`Window`) needs no bounds: they follow from the place of a query.

Axes: b batch, t queries, m keys, c complete blocks.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Int32, Int64
from torch import Tensor

from lt2theory.ops.sparse.nsa_reference import (
    BlockSparseProblem,
    block_ends,
    positions_in_segment,
)


@dataclass(frozen=True)
class Spans:
    """The run of keys that every query reads; both bounds are equal where it reads nothing.

    Attributes:
        low: First key `[b t]`.
        high: Key after the last `[b t]`.
    """

    low: Int32[Tensor, "b t"]
    high: Int32[Tensor, "b t"]

    def readers(self, num_keys: int, width: int) -> Int32[Tensor, "2 b y"]:
        """Which queries read anything of every tile of keys.

        Args:
            num_keys: Keys.
            width: Keys of a tile.

        Returns:
            The first query of every tile, and the query after its last.
        """
        first = torch.arange(0, num_keys, width, dtype=torch.int32, device=self.low.device)
        last = (first + width - 1).clamp(max=num_keys - 1)
        rows = len(self.low)
        # The first query whose span ends behind the tile's first key, and the first whose begins
        # behind its last.
        begin, end = (
            torch.searchsorted(bound, key.expand(rows, -1).contiguous(), right=True, out_int32=True)
            for bound, key in ((self.high, first), (self.low, last))
        )
        return torch.stack([begin, end])


@dataclass(frozen=True)
class Window:
    """The run of keys that ends with the query's own, and what of it belongs to the query.

    Attributes:
        width: Keys of the run, the query's own among them.
        asking: Segment of every query `[b t]`, contiguous; negative where it reads nothing. None:
            all is one segment.
        asked: Segment of every key `[b m]`, contiguous; None with `asking`. Equal ids need not be
            neighbours.
    """

    width: int
    asking: Int64[Tensor, "b t"] | None = None
    asked: Int64[Tensor, "b m"] | None = None


@dataclass(frozen=True)
class Layout:
    """Where the blocks of a problem are, and what the branches of its queries read.

    Attributes:
        last: Last token of every complete block `[b c]`, in order; the number of keys where a row
            has fewer.
        block: Number of every token's block `[b m]`, -1 where it is not complete or is padding.
        window: Tokens of the window branch.
        own: Tokens of the query's own block, up to the query.
        visible: Blocks of the compressed branch.
        earlier: Those of them that can be chosen, all but the query's own.
    """

    last: Int32[Tensor, "b c"]
    block: Int64[Tensor, "b m"]
    window: Spans
    own: Spans
    visible: Spans
    earlier: Spans

    @classmethod
    def of(cls, problem: BlockSparseProblem) -> "Layout":
        """The layout of an attention.

        Args:
            problem: The attention.

        Returns:
            Its layout.
        """
        num_keys, size, device = problem.k.shape[1], problem.block_size, problem.k.device
        shape = (len(problem.k), num_keys)
        index = torch.arange(num_keys, device=device).expand(shape)
        position = positions_in_segment(problem).expand(shape)
        ends = block_ends(problem).expand(shape)
        # complete[m] blocks end before token m; the one more stands for the end of the text.
        complete = torch.nn.functional.pad(ends.cumsum(1), (1, 0))
        last = _last_tokens(ends, complete, num_keys // size)
        start, own = index - position, index - position % size
        real = torch.ones_like(ends) if problem.key_segments is None else problem.key_segments >= 0
        low = start if problem.window is None else torch.maximum(start, index + 1 - problem.window)
        past = num_keys - problem.q.shape[1]

        def spans(low: Tensor, high: Tensor) -> Spans:
            low = torch.where(real, low, high)
            return Spans(*(x[:, past:].int().contiguous() for x in (low, high)))

        first, seen = complete.gather(1, start), complete[:, 1:]
        earlier = complete.gather(1, own)
        return cls(
            last.int().contiguous(),
            _blocks_of_tokens(last, own + size - 1, earlier, real),
            window=spans(low, index + 1),
            own=spans(own, index + 1),
            visible=spans(first, seen),
            earlier=spans(first, earlier),
        )


def _last_tokens(ends: Tensor, complete: Tensor, count: int) -> Int64[Tensor, "b c"]:
    """The places of the ends in order, filled up with the number of keys."""
    num_keys = ends.shape[1]
    index = torch.arange(num_keys, device=ends.device).expand(ends.shape)
    # Tokens that end no block are written to a column that is cut off.
    column = torch.where(ends, complete[:, :-1], count)
    last = index.new_full((len(ends), count + 1), num_keys)
    return last.scatter(1, column, index)[:, :count]


def _blocks_of_tokens(
    last: Tensor, end: Tensor, number: Tensor, real: Tensor
) -> Int64[Tensor, "b m"]:
    """`number`, where the block with this number does end at `end`."""
    if last.shape[1] == 0:
        return torch.full_like(number, -1)
    found = last.gather(1, number.clamp(max=last.shape[1] - 1)) == end
    return torch.where(found & real, number, -1)
