"""The choice of blocks, and attention by blocks: launches of `triton_choice` and `triton_block`.

Triton is imported when a kernel is launched, not with this module.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int32
from torch import Tensor

from lt2theory.ops.sparse.masked_launch import LOG2_E, Heads, Tiling, kind_of
from lt2theory.ops.sparse.nsa_spans import Spans
from lt2theory.ops.sparse.span_launch import Branch, Gradients, Parts, Piece, sizes_of

MOST_BLOCKS = 2**15
"""Complete blocks whose importance for one query fits a program's registers."""
_BUFFER = 2**30
"""Bytes of what the queries of a piece have of every block, and of the blocks' importance."""
_UNIT = 128
"""Where a key head is too much for one piece, its pieces are multiples of so many queries."""
_HELD = 2**12
"""Importances that one program of the choice holds, if a query has no more."""
_LISTED = 128
"""Queries that one program of the lists looks at together."""

TILINGS = {
    ("importance", "half"): Tiling(64, 64, 4, 2),
    ("forward", "half"): Tiling(128, 64, 4, 2),
    ("gradient", "half"): Tiling(64, 64, 8, 2),
    ("importance", "wide"): Tiling(64, 64, 4, 2),
    ("forward", "wide"): Tiling(128, 32, 4, 2),
    ("gradient", "wide"): Tiling(32, 32, 8, 2),
    ("importance", "float32"): Tiling(32, 32, 4, 1),
    ("forward", "float32"): Tiling(64, 32, 4, 1),
    ("gradient", "float32"): Tiling(16, 32, 8, 1),
}
"""By kernel and by what a tile must hold. A piece of a block is as wide forward as back."""


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


def pieces_of(heads: Heads, blocks: Blocks) -> list[Piece]:
    """The pieces in which the choice is computed and read.

    Args:
        heads: What is attended to.
        blocks: What is chosen from.

    Returns:
        The pieces; with `_BUFFER` to spare, the whole.
    """
    batch, length, count, width = heads.q.shape
    groups, widest = heads.k.shape[2], max(width, heads.v.shape[3])
    rows = batch * groups
    places = blocks.slots * _each(heads, blocks) * (count // groups)
    each = places * (widest * heads.q.element_size() + 4) + 4 * blocks.last.shape[1]
    most = _BUFFER // (each * length)
    if most == 0:
        step = max(_UNIT, _BUFFER // each // _UNIT * _UNIT)
        starts = range(0, length, step)
        return [Piece(j, 1, n, min(n + step, length)) for j in range(rows) for n in starts]
    step = -(-rows // -(-rows // most))
    return [Piece(j, min(step, rows - j), 0, length) for j in range(0, rows, step)]


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
    import triton

    from lt2theory.ops.sparse.triton_choice import choice_kernel, importance_kernel, list_kernel

    heads = compressed.heads
    length, groups, complete = heads.q.shape[1], heads.k.shape[2], blocks.last.shape[1]
    tiling = TILINGS["importance", kind_of(heads)]
    order = blocks.last.new_empty(piece.count, piece.length, complete)
    rest = heads.k if compressed.rest is None else compressed.rest
    sizes = sizes_of(heads, tiling) | {"CK": _cut(heads.q.shape[3])}
    del sizes["BK"], sizes["DV"], sizes["BV"]
    grid = (-(-complete // tiling.keys), -(-piece.length // tiling.queries), piece.count)
    importance_kernel[grid](
        heads.q, heads.k, rest, lse, earlier.high, order, heads.scale * LOG2_E,
        length, complete, piece.first, piece.start, piece.length,
        G=groups, R=heads.q.shape[2] // groups, SPLIT=compressed.rest is not None, **sizes,
    )  # fmt: skip
    words = -(-complete // 16)
    choice = order.new_empty(piece.count, words, piece.length)
    taken = order.new_empty(piece.count, piece.length)
    counts = order.new_zeros(piece.count * complete)
    columns = max(32, triton.next_power_of_2(complete))
    rows = max(1, _HELD // columns)
    choice_kernel[(-(-piece.length // rows), piece.count)](
        order, earlier.low, earlier.high, choice, taken, counts,
        length, complete, piece.first, piece.start, piece.length, words, blocks.slots,
        G=groups, BM=rows, BC=columns, num_warps=4 if columns <= 8192 else 16,
    )  # fmt: skip
    ends = counts.cumsum(0, dtype=torch.int32)
    lists = order.new_empty(piece.count * piece.length * blocks.slots)
    list_kernel[(words, piece.count)](
        choice, ends, lists, complete, piece.length, words, blocks.slots,
        blocks.size - blocks.past - piece.start, blocks.size, BLOCK=_LISTED,
    )  # fmt: skip
    return Choice(piece, ends, lists, taken)


def read(heads: Heads, blocks: Blocks, choice: Choice) -> Parts:
    """What the queries of a piece read of every block that they take.

    Args:
        heads: What is attended to.
        blocks: The blocks.
        choice: Who takes them.

    Returns:
        The outputs by block, in the dtype of the queries.
    """
    from lt2theory.ops.sparse.triton_block import block_forward_kernel

    piece, tiling = choice.piece, TILINGS["forward", kind_of(heads)]
    parts = _new_parts(heads, blocks, choice, heads.v.shape[3])
    (_, length, count, width), groups = heads.q.shape, heads.k.shape[2]
    repeat, complete = count // groups, blocks.last.shape[1]
    # Tiles are numbered through all lists; only the device knows how many each has.
    begin = torch.nn.functional.pad(choice.ends[:-1], (1, 0))
    tiles = ((choice.ends - begin) * repeat + tiling.queries - 1) // tiling.queries
    tile_ends = tiles.cumsum(0, dtype=torch.int32)
    listed = piece.length * blocks.slots
    most = min(listed, complete) + listed * repeat // tiling.queries
    jobs = torch.arange(most * piece.count, dtype=torch.int32, device=tiles.device)
    jobs = torch.searchsorted(tile_ends, jobs, right=True, out_int32=True)
    sizes = sizes_of(heads, tiling) | {"BN": _piece_width(heads, blocks)}
    del sizes["BK"], sizes["BV"]
    block_forward_kernel[(len(jobs), parts.each)](
        heads.q, heads.k, heads.v, blocks.last, choice.lists, choice.ends, tile_ends, jobs,
        parts.values, parts.lse, heads.scale * LOG2_E, length, heads.k.shape[1], complete,
        piece.first, piece.start, piece.length, len(choice.ends),
        G=groups, R=repeat, SLOTS=blocks.slots, SIZE=blocks.size, EACH=parts.each,
        CK=_cut(width), CV=_cut(heads.v.shape[3]), **sizes,
    )  # fmt: skip
    return parts


def add_gradients(
    heads: Heads,
    blocks: Blocks,
    choice: Choice,
    gradients: Gradients,
    lse: Float[Tensor, "b t h"],
) -> Parts:
    """Add to the gradients of keys and values what a piece's queries give by their choice.

    Args:
        heads: What was attended to.
        blocks: The blocks.
        choice: Who takes them.
        gradients: What is read and added to.
        lse: Logarithms to base 2 of the sums of exponentials of the selected branch.

    Returns:
        The gradients of the queries by block, in their dtype.
    """
    from lt2theory.ops.sparse.triton_block import block_gradient_kernel

    piece, tiling = choice.piece, TILINGS["gradient", kind_of(heads)]
    parts = _new_parts(heads, blocks, choice, heads.q.shape[3])
    (_, length, count, _), groups = heads.q.shape, heads.k.shape[2]
    complete = blocks.last.shape[1]
    sizes = sizes_of(heads, tiling) | {"BN": _piece_width(heads, blocks)}
    block_gradient_kernel[(complete * parts.each, piece.count)](
        heads.q, heads.k, heads.v, blocks.last, choice.lists, choice.ends,
        gradients.output, lse, gradients.dots, gradients.gates,
        parts.values, gradients.k, gradients.v, heads.scale * LOG2_E, heads.scale,
        length, heads.k.shape[1], complete, piece.first, piece.start, piece.length,
        G=groups, R=count // groups, SLOTS=blocks.slots, SIZE=blocks.size, EACH=parts.each,
        BRANCH=1, **sizes,
    )  # fmt: skip
    return parts


def _new_parts(heads: Heads, blocks: Blocks, choice: Choice, width: int) -> Parts:
    piece, repeat = choice.piece, heads.q.shape[2] // heads.k.shape[2]
    each = _each(heads, blocks)
    shape = (piece.count, piece.length, blocks.slots * each, repeat)
    lse = heads.q.new_empty(shape, dtype=torch.float32)
    return Parts(heads.q.new_empty(*shape, width), lse, choice.taken, each)


def _piece_width(heads: Heads, blocks: Blocks) -> int:
    """Keys of a block that one program holds."""
    import triton

    narrow: int = triton.next_power_of_2(blocks.size)
    return min(TILINGS["forward", kind_of(heads)].keys, max(16, narrow))


def _each(heads: Heads, blocks: Blocks) -> int:
    """Pieces of a block."""
    return -(-blocks.size // _piece_width(heads, blocks))


def _cut(width: int) -> int:
    """The widest tile that fills a width without a remainder, where there is one."""
    import triton

    return next(
        (x for x in (64, 32) if width % x == 0), min(64, max(16, triton.next_power_of_2(width)))
    )
