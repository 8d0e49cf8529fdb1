"""The choice of blocks, and who takes a block: launches of `triton_choice` and `triton_lists`.

Triton is imported when a kernel is launched, not with this module.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int32
from torch import Tensor

from lt2theory.ops.sparse.nsa_parts import Branch, Piece
from lt2theory.ops.sparse.nsa_spans import Spans
from lt2theory.ops.sparse.tiling import LOG2_E, Tiling, kind_of, sizes_of

MOST_BLOCKS = 2**15
"""Complete blocks whose importance for one query fits a program's registers."""
_FEWEST = 128
"""Blocks among which every query chooses at least; the first queries need not see all."""
_HELD = 2**11
"""Importances that one warp of the choice holds."""
_ROWS = 4
"""Queries of one program of the choice, at most: all wait for the slowest."""
_LISTED = 256
"""Queries that one program of the lists looks at together."""

_STEPS = 12
"""Halvings by which the importances' kernel bounds the choice; the choice itself is exact."""

TILINGS = {
    "half": Tiling(64, 64, 4, 2),
    "wide": Tiling(64, 64, 4, 2),
    "float32": Tiling(32, 32, 4, 1),
}
"""Of the importances, by what a tile must hold."""


@dataclass(frozen=True)
class Blocks:
    """What queries choose from, and how many.

    Attributes:
        last: Last token of every block `[b c]`.
        size: Tokens of a block.
        slots: Blocks that a query takes beside its own, at least 1.
        past: Tokens before the first query.
    """

    last: Int32[Tensor, "b c"]
    size: int
    slots: int
    past: int


@dataclass(frozen=True)
class Choice:
    """The choice of a piece's queries, by blocks.

    Attributes:
        piece: Whose.
        ends: Place after the list of every key head's every block `[j*c]`.
        lists: The lists, one behind the other: `query of the piece * slots + slot`.
        taken: Blocks that every query takes `[j n]`.
    """

    piece: Piece
    ends: Int32[Tensor, "jc"]
    lists: Int32[Tensor, "e"]
    taken: Int32[Tensor, "j n"]


def choose(
    compressed: Branch, lse: Float[Tensor, "b t h"], earlier: Spans, blocks: Blocks, piece: Piece
) -> Choice:
    """Choose the blocks of a piece's queries.

    Args:
        compressed: The compressed branch.
        lse: Its logarithms to base 2 of the sums of exponentials.
        earlier: Blocks that every query may choose.
        blocks: What is chosen from.
        piece: Whose queries.

    Returns:
        Their choice.
    """
    importances = _importances(compressed, lse, earlier, blocks, piece)
    words, taken = _words(*importances, compressed.heads.k.shape[2], earlier, blocks, piece)
    return Choice(piece, *_lists(words, blocks, piece), taken)


def _importances(
    compressed: Branch, lse: Tensor, earlier: Spans, blocks: Blocks, piece: Piece
) -> tuple[Int32[Tensor, "j n c"], Int32[Tensor, "2 j n"]]:
    """How important blocks are, as whole numbers in order, and bounds of the least chosen."""
    from lt2theory.ops.sparse.triton_choice import importance_kernel

    heads = compressed.heads
    length, groups, complete = heads.q.shape[1], heads.k.shape[2], blocks.last.shape[1]
    tiling = TILINGS[kind_of(heads)]
    order = blocks.last.new_empty(piece.count, piece.length, complete)
    bounds = blocks.last.new_empty(2, piece.count, piece.length)
    rest = heads.k if compressed.rest is None else compressed.rest
    sizes = sizes_of(heads, tiling) | {"CK": cut(heads.q.shape[3])}
    del sizes["BK"], sizes["DV"], sizes["BV"]
    importance_kernel[(-(-piece.length // tiling.queries) * piece.count,)](
        heads.q, heads.k, rest, lse, earlier.low, earlier.high, order, *bounds,
        heads.scale * LOG2_E, length, complete,
        piece.first, piece.start, piece.length, blocks.slots,
        G=groups, R=heads.q.shape[2] // groups, SPLIT=compressed.rest is not None, STEPS=_STEPS,
        **sizes,
    )  # fmt: skip
    return order, bounds


def _words(
    order: Tensor, bounds: Tensor, groups: int, earlier: Spans, blocks: Blocks, piece: Piece
) -> tuple[Int32[Tensor, "j w n"], Int32[Tensor, "j n"]]:
    """The choice as words of 16 blocks, and how many blocks every query takes."""
    import triton

    from lt2theory.ops.sparse.triton_choice import choice_kernel

    complete, length = blocks.last.shape[1], earlier.low.shape[1]
    words = order.new_empty(piece.count, -(-complete // 16), piece.length)
    taken = order.new_empty(piece.count, piece.length)
    # Queries that can see few blocks have narrower programs than the later ones.
    columns, begin = min(_FEWEST, max(32, triton.next_power_of_2(complete))), 0
    while begin < piece.length:
        end = piece.length
        if columns < complete:
            end = min(end, (columns + 1) * blocks.size - blocks.past - piece.start)
        if begin < end:
            rows = max(1, min(_ROWS, _HELD // columns))
            choice_kernel[(-(-(end - begin) // rows) * piece.count,)](
                order, *bounds, earlier.low, earlier.high, words, taken, length, complete,
                piece.first, piece.start, begin, end, piece.length, words.shape[1], blocks.slots,
                G=groups, BM=rows, BC=columns, num_warps=max(1, min(16, columns // _HELD)),
            )  # fmt: skip
            begin = end
        columns *= 2
    return words, taken


def _lists(
    words: Tensor, blocks: Blocks, piece: Piece
) -> tuple[Int32[Tensor, "jc"], Int32[Tensor, "e"]]:
    """The places after every block's list, and the lists."""
    from lt2theory.ops.sparse.triton_lists import count_kernel, list_kernel

    complete, tiles = blocks.last.shape[1], -(-piece.length // _LISTED)
    grid = (tiles * words.shape[1] * piece.count,)
    reach = (blocks.size - blocks.past - piece.start, blocks.size)
    sizes = (complete, piece.length, words.shape[1])
    # A sort by counting: tiles of queries count who takes a block, running sums of the counts say
    # where every tile's part of a list begins, and the tiles write.
    counts = words.new_empty(piece.count * complete * tiles)
    count_kernel[grid](words, counts, *sizes, *reach, BLOCK=_LISTED)
    places = counts.cumsum(0, dtype=torch.int32)
    lists = words.new_empty(piece.count * piece.length * blocks.slots)
    list_kernel[grid](words, places, lists, *sizes, blocks.slots, *reach, BLOCK=_LISTED)
    return places[tiles - 1 :: tiles].contiguous(), lists


def cut(width: int) -> int:
    """The widest tile that fills a width without a remainder, where there is one.

    Args:
        width: What is cut into tiles.

    Returns:
        A power of two.
    """
    import triton

    return next(
        (x for x in (64, 32) if width % x == 0), min(64, max(16, triton.next_power_of_2(width)))
    )
