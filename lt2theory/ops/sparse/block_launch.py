"""Attention by blocks: launches of `triton_block`.

Triton is imported when a kernel is launched, not with this module.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from lt2theory.ops.sparse.choice_launch import Blocks, Choice, cut
from lt2theory.ops.sparse.nsa_parts import Gradients, Parts, Piece
from lt2theory.ops.sparse.tiling import LOG2_E, Heads, Tiling, kind_of, sizes_of

_BUFFER = 2**30
"""Bytes of what the queries of a piece have of every block, and of the blocks' importance."""
_JOINED = 16
"""Queries whose parts one program joins."""
_TOGETHER = 2048
"""Bytes of a query's parts that are asked for at once."""
_UNROLLED = 16
"""Parts of a query without a loop, at most."""
_UNIT = 128
"""Where a key head is too much for one piece, its pieces are multiples of so many queries."""

TILINGS = {
    ("forward", "half"): Tiling(128, 64, 4, 2),
    ("gradient", "half"): Tiling(64, 64, 8, 2),
    ("forward", "wide"): Tiling(128, 32, 4, 2),
    ("gradient", "wide"): Tiling(32, 32, 8, 2),
    ("forward", "float32"): Tiling(64, 32, 4, 1),
    ("gradient", "float32"): Tiling(16, 32, 8, 1),
}
"""By kernel and by what a tile must hold. A piece of a block is as wide forward as back."""


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
    block_forward_kernel[(len(jobs) * parts.each,)](
        heads.q, heads.k, heads.v, blocks.last, choice.lists, choice.ends, tile_ends, jobs,
        parts.values, parts.lse, heads.scale * LOG2_E, length, heads.k.shape[1], complete,
        piece.first, piece.start, piece.length, len(choice.ends),
        G=groups, R=repeat, SLOTS=blocks.slots, SIZE=blocks.size, EACH=parts.each,
        CK=cut(width), CV=cut(heads.v.shape[3]), **sizes,
    )  # fmt: skip
    return parts


def join(
    parts: Parts, piece: Piece, output: Float[Tensor, "b t h v"], lse: Float[Tensor, "b t h"]
) -> None:
    """Join what the queries of a piece read of the blocks that they take to what they have.

    Args:
        parts: The outputs by block.
        piece: Whose.
        output: Outputs of other keys, that become those of all.
        lse: Logarithms to base 2 of their sums of exponentials, likewise.
    """
    from lt2theory.ops.sparse.triton_block import join_kernel

    _, length, count, values = output.shape
    places, repeat = parts.values.shape[2:4]
    most = min(_TOGETHER // (values * output.element_size()), _UNROLLED // 2, places)
    batch = max(1, most)
    unrolled = min(-(-places // batch), _UNROLLED // batch) * batch
    join_kernel[(-(-piece.length // _JOINED) * piece.count * repeat,)](
        parts.values, parts.lse, parts.taken, output, lse,
        length, piece.first, piece.start, piece.length,
        G=count // repeat, R=repeat, P=places, EACH=parts.each, DV=values,
        BM=_JOINED, BP=unrolled, BATCH=batch, CV=cut(values),
    )  # fmt: skip


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
    block_gradient_kernel[(complete * parts.each * piece.count,)](
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
