"""Attention of a block of queries under its indexer's choice: launches of `triton_masked`.

Triton is imported when a kernel is launched, not with this module.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int8, Int32
from torch import Tensor

from lt2theory.ops.sparse.index_launch import Block, Thresholds
from lt2theory.ops.sparse.tiling import LOG2_E, Heads, Tiling, kind_of, sizes_of

TILINGS = {
    ("forward", "half"): Tiling(128, 64, 8, 2),
    ("query_gradient", "half"): Tiling(64, 64, 4, 2),
    ("key_gradient", "half"): Tiling(64, 64, 8, 2),
    ("forward", "wide"): Tiling(64, 64, 8, 2),
    ("query_gradient", "wide"): Tiling(64, 32, 4, 2),
    ("key_gradient", "wide"): Tiling(32, 32, 8, 2),
    ("forward", "float32"): Tiling(32, 32, 8, 1),
    ("query_gradient", "float32"): Tiling(32, 32, 4, 1),
    ("key_gradient", "float32"): Tiling(32, 32, 4, 1),
}
"""By kernel and by what a tile must hold: halves, keys wider than 128, or float32."""


@dataclass(frozen=True)
class Masks:
    """Buffers for the choice of a block as bytes, and for the tiles that are not empty.

    Attributes:
        mask: 1 where a key is taken `[b c s]`.
        flags: 1 where a tile of 64 by 64 is not empty `[b c/64 s/64]`.
    """

    mask: Int8[Tensor, "b c s"]
    flags: Int32[Tensor, "b y x"]

    @classmethod
    def like(cls, order: Int32[Tensor, "b c s"]) -> "Masks":
        """Empty buffers.

        Args:
            order: The buffer of scores.

        Returns:
            Buffers of its size.
        """
        from lt2theory.ops.sparse.triton_index import TILE

        batch, rows, columns = order.shape
        flags = order.new_empty(batch, rows // TILE, columns // TILE)
        return cls(torch.empty_like(order, dtype=torch.int8), flags)


@dataclass(frozen=True)
class Gradients:
    """What the way back reads and writes.

    Attributes:
        output: Gradient of the output `[b t h v]`.
        lse: Logarithm to base 2 of the sum of exponentials `[b t h]`.
        delta: Product of output and gradient `[b t h]`.
        q: Gradient of the queries `[b t h k]`, written.
        k: Gradient of the keys in float32 `[b m g k]`, added to.
        v: Gradient of the values in float32 `[b m g v]`, added to.
    """

    output: Float[Tensor, "b t h v"]
    lse: Float[Tensor, "b t h"]
    delta: Float[Tensor, "b t h"]
    q: Float[Tensor, "b t h k"]
    k: Float[Tensor, "b m g k"]
    v: Float[Tensor, "b m g v"]


def fill_masks(block: Block, thresholds: Thresholds, masks: Masks) -> None:
    """Write the choice of one block as bytes.

    Args:
        block: The block, scored.
        thresholds: The choice of every query.
        masks: Where it is written, in whole tiles up to the block's last query and key.
    """
    from lt2theory.ops.sparse.triton_index import TILE, mask_kernel

    batch, rows, columns = block.order.shape
    across, down = -(-block.keys // TILE), block.whole_rows // TILE
    mask_kernel[(across * down * batch,)](
        block.order, thresholds.least, thresholds.cut, masks.mask, masks.flags,
        thresholds.least.shape[1], block.start, rows, columns, across, down, BLOCK=TILE,
    )  # fmt: skip


def attend(
    heads: Heads,
    block: Block,
    masks: Masks,
    output: Float[Tensor, "b t h v"],
    lse: Float[Tensor, "b t h"],
) -> None:
    """Write the outputs of one block's queries.

    Args:
        heads: What is attended to.
        block: The block.
        masks: Its choice.
        output: Where the outputs are written.
        lse: Where the logarithms to base 2 of the sums of exponentials are written.
    """
    from lt2theory.ops.sparse.triton_masked import forward_kernel

    _launch(forward_kernel, "forward", heads, block, masks, (output, lse))


def add_gradients(heads: Heads, block: Block, masks: Masks, gradients: Gradients) -> None:
    """Write the gradient of one block's queries, and add to those of keys and values.

    Args:
        heads: What was attended to.
        block: The block.
        masks: Its choice.
        gradients: What is read and written.
    """
    from lt2theory.ops.sparse.triton_masked import key_gradient_kernel, query_gradient_kernel

    read = (gradients.output, gradients.lse, gradients.delta)
    written: tuple[Tensor, ...] = (*read, gradients.q)
    _launch(query_gradient_kernel, "query_gradient", heads, block, masks, written)
    written = (*read, gradients.k, gradients.v)
    _launch(key_gradient_kernel, "key_gradient", heads, block, masks, written)


@dataclass(frozen=True)
class _Tiles:
    """The tiles that are not empty of every line `[b line along]`, how many, and a line's width."""

    places: Int32[Tensor, "b line along"]
    count: Int32[Tensor, "b line"]
    width: int


def _tiles(block: Block, masks: Masks, *, merged: int, transposed: bool) -> _Tiles:
    """By rows of tiles, `merged` of them at a time, or by columns."""
    import triton

    from lt2theory.ops.sparse.triton_index import TILE, tiles_kernel

    down, across = block.whole_rows // TILE, -(-block.keys // TILE)
    lines, along = (across, down) if transposed else (down // merged, across)
    batch, row, step = masks.flags.stride()
    line, step = (step, row) if transposed else (row, step)
    places = masks.flags.new_empty(len(masks.flags), lines, along)
    count = masks.flags.new_empty(len(masks.flags), lines)
    tiles_kernel[(lines * len(masks.flags),)](
        masks.flags, places, count, lines, along, batch, line, step,
        MERGED=merged, BLOCK=min(1024, triton.next_power_of_2(along)),
    )  # fmt: skip
    return _Tiles(places, count, merged * TILE)


def _launch(
    kernel: Any, name: str, heads: Heads, block: Block, masks: Masks, tensors: tuple[Tensor, ...]
) -> None:
    """Run a kernel on every tile of queries and head, or of keys and key head."""
    from lt2theory.ops.sparse.triton_index import TILE

    batch, length, count, _ = heads.q.shape
    num_keys, groups = heads.k.shape[1:3]
    tiling = TILINGS[name, kind_of(heads)]
    if name == "key_gradient":
        lists = _tiles(block, masks, merged=1, transposed=True)
        grid = (-(-block.keys // tiling.keys) * batch * groups,)
    else:
        lists = _tiles(block, masks, merged=max(1, tiling.queries // TILE), transposed=False)
        grid = (block.whole_rows // tiling.queries * batch * count,)
    kernel[grid](
        heads.q, heads.k, heads.v, masks.mask, lists.places, lists.count, *tensors,
        heads.scale * LOG2_E, *(() if name == "forward" else (heads.scale,)),
        length, num_keys, block.start, *block.order.shape[1:], *lists.places.shape[1:],
        H=count, G=groups, LINE=lists.width, TILE=TILE, **sizes_of(heads, tiling),
    )  # fmt: skip
