# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Triton kernels that turn the choice of `triton_choice` round: into lists of queries by block.

A sort by counting, whose order is fixed. Importing this module imports Triton.
"""

from typing import no_type_check

import triton
import triton.language as tl

from lt2theory.ops.sparse.triton_choice import count_bits
from lt2theory.ops.triton_grid import place_of


@triton.jit
@no_type_check
def _set_before(bits):
    """Of 8 bits, how many below each are set: 8 numbers of 4 bits."""
    bits = (bits | (bits << 12)) & 0x000F000F
    bits = (bits | (bits << 6)) & 0x03030303
    bits = ((bits | (bits << 3)) & 0x11111111) << 4
    bits += bits << 4
    bits += bits << 8
    return bits + (bits << 16)


@triton.jit
@no_type_check
def _words_of_tile(WORDS, N, tile, line, first, BLOCK: tl.constexpr):
    """One word of every query of a tile, and the queries; 0 before the first that has any."""
    n = tile * BLOCK + tl.arange(0, BLOCK)
    return tl.load(WORDS + line * N + n, mask=(n < N) & (n >= first), other=0), n


@triton.jit
@no_type_check
def _pairs(words, i):
    """Bits of 8 blocks below, of the next 8 above, so that one sum counts both."""
    pairs = words & 0xFF | (words & 0xFF00) << 8
    return (pairs[:, None] >> i[None, :]) & 0x10001


@triton.jit
@no_type_check
def count_kernel(WORDS, COUNTS, C, N, WIDTH, EARLIEST, SIZE, BLOCK: tl.constexpr):
    """For 16 blocks, how many queries of a tile take each: COUNTS `[j c tile]`.

    No query before EARLIEST, and SIZE for every further block, can take a block of this row.
    """
    i = tl.arange(0, 8)
    counts = tl.zeros([8], tl.int32)
    tiles = tl.cdiv(N, BLOCK)
    tile, line = place_of(tiles)
    word = (line % WIDTH).to(tl.int32)
    first = EARLIEST + word * 16 * SIZE
    if (tile + 1) * BLOCK > first:
        words, _ = _words_of_tile(WORDS, N, tile, line, first, BLOCK)
        counts = tl.sum(_pairs(words, i), 0)
    for half in tl.static_range(0, 2):
        c = word * 16 + half * 8 + i
        at = (line // WIDTH * C + c) * tiles + tile
        tl.store(COUNTS + at, (counts >> (16 * half)) & 0xFFFF, mask=c < C)


@triton.jit
@no_type_check
def list_kernel(
    WORDS, PLACES, LISTS, C, N, WIDTH, SLOTS, EARLIEST, SIZE, BLOCK: tl.constexpr,
):  # fmt: skip
    """For 16 blocks, who of a tile takes them: `query * SLOTS + slot`, in the order of queries.

    PLACES are the running sums of the counts of tiles, over all that `count_kernel` wrote.
    """
    tiles = tl.cdiv(N, BLOCK)
    tile, line = place_of(tiles)
    word = (line % WIDTH).to(tl.int32)
    first = EARLIEST + word * 16 * SIZE
    if (tile + 1) * BLOCK > first:
        words, n = _words_of_tile(WORDS, N, tile, line, first, BLOCK)
        if tl.max(words & 0xFFFF, 0) > 0:
            i = tl.arange(0, 8)
            pairs = _pairs(words, i)
            before = tl.cumsum(pairs, 0) - pairs
            entry = n * SLOTS + (words >> 16)
            for half in tl.static_range(0, 2):
                c = word * 16 + half * 8 + i
                at = (line // WIDTH * C + c) * tiles + tile
                place = tl.load(PLACES + at - 1, mask=(c < C) & (at > 0), other=0)
                to = place[None, :] + ((before >> (16 * half)) & 0xFFFF)
                bits = (words >> (8 * half)) & 0xFF
                slot = (_set_before(bits)[:, None] >> (4 * i)[None, :]) & 0xF
                taken = (pairs & (1 << (16 * half))) > 0
                tl.store(LISTS + to, entry[:, None] + slot, mask=taken)
                entry += count_bits(bits)
