# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""NSA's compressed branch for one new token, and the choice of blocks by its probabilities.

One kernel, which can also write what is new where it is kept, as `place_token` does. The means of
the blocks are split among programs, and whichever program of a key head comes last joins what all
have found and takes the most important blocks.
"""

from typing import no_type_check

import triton
import triton.language as tl
from torch import Tensor

from lt2theory.ops.fused.buffers import row_strides
from lt2theory.ops.fused.triton_highest import LOWEST, take_highest
from lt2theory.ops.fused.triton_overlap import (
    fetch_to_l2,
    let_next_start,
    overlaps,
    pieces,
    wait_for_last,
)
from lt2theory.ops.fused.triton_place import place_key, place_value

MOST_BLOCKS = 8192
"""Blocks of a buffer that one program can rank."""
_AT_A_TIME, _STAGES, _PROGRAMS = 8, 4, 528
"""Blocks of a tile, stages of its pipeline, and programs that are at work at once."""
_REGISTERS, _GUESSES, _PIECES = 128, 16, 4
"""Registers of a thread (as few as it takes for four programs a multiprocessor), guesses at a time
in the choice, and pieces in which a mean is asked for ahead."""


@triton.jit
@no_type_check
def _ask_ahead(
    MEAN_K, MEAN_V, begin, complete, step,
    SHARE: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, BA: tl.constexpr,
    PIECES: tl.constexpr,
):  # fmt: skip
    """Ask for the means of one share."""
    n = begin + tl.minimum(tl.arange(0, BA), SHARE - 1)
    at = tl.maximum(tl.minimum(n, complete - 1), 0) * step
    piece = tl.arange(0, PIECES)
    fetch_to_l2(MEAN_K + at[:, None] * DK + piece[None, :] * (DK // PIECES), DK // PIECES, True)
    fetch_to_l2(MEAN_V + at[:, None] * DV + piece[None, :] * (DV // PIECES), DV // PIECES, True)


@triton.jit
@no_type_check
def _place(
    at, HEAD_K, HEAD_V, MEAN_K, MEAN_V, LENGTH, first, position, step, mean_step, g, split,
    SIZE: tl.constexpr, SHARE: tl.constexpr, G: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    BH: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write what is new of a head, in the one program that may read its mean."""
    if split == position // SIZE // SHARE:
        place = position + first
        place_key(at + g * DK, HEAD_K, MEAN_K, LENGTH, place, position, step, mean_step,
                  DK, SIZE, False, BH)  # fmt: skip
        place_value(at + G * DK + g * DV, HEAD_V, MEAN_V, place, position, step, mean_step,
                    DV, SIZE, BV)  # fmt: skip
        # Other threads of the program load the mean.
        tl.debug_barrier()


@triton.jit
@no_type_check
def _importance(
    SCORES, ACC, TOP, TOTAL, READ, query, n, w, blocks, complete,
    SPLITS: tl.constexpr, DV: tl.constexpr, BS: tl.constexpr,
):  # fmt: skip
    """Join what the shares of one query head found: write its read-out, return probabilities."""
    share = tl.arange(0, BS)
    at = query * SPLITS + share
    # Other programs wrote these: the first level of this one's cache may hold what was before. All
    # are asked for before the first is looked at.
    real = share < SPLITS
    top = tl.load(TOP + at, mask=real, other=float("-inf"), cache_modifier=".cg")
    total = tl.load(TOTAL + at, mask=real, other=0.0, cache_modifier=".cg")
    mask = real[:, None] & (w < DV)[None, :]
    acc = tl.load(ACC + at[:, None] * DV + w[None, :], mask=mask, other=0.0, cache_modifier=".cg")
    s_at = SCORES + query * blocks + n
    s = tl.load(s_at, mask=n < complete, other=float("-inf"), cache_modifier=".cg")
    highest = tl.max(top, 0)
    highest = tl.where(highest == float("-inf"), 0.0, highest)
    weight = tl.exp(top - highest)
    whole = tl.sum(total * weight, 0)
    whole = tl.where(whole > 0, whole, 1.0)
    tl.store(READ + query * DV + w, tl.sum(acc * weight[:, None], 0) / whole, mask=w < DV)
    return tl.exp(s - highest) / whole


@triton.jit
@no_type_check
def _block_kernel(
    P, POOLED_K, POOLED_V, KEYS, VALUES,
    LENGTH, FIRST, SCORES, ACC, TOP, TOTAL, ARRIVED, READ, CHOSEN,
    scale, blocks, stride, of_row, step, of_head, means_of_row, mean_step, means_of_head,
    SIZE: tl.constexpr, NB: tl.constexpr, SHARE: tl.constexpr, SPLITS: tl.constexpr,
    G: tl.constexpr, R: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, BS: tl.constexpr,
    BC: tl.constexpr, BH: tl.constexpr, BA: tl.constexpr, STAGES: tl.constexpr,
    GUESSES: tl.constexpr, PLACE: tl.constexpr, PIECES: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """One program a row, query head and share of the blocks; scores lie as `[b h c]`.

    With PLACE, where every query head has a key head, the program of the newest block also writes
    the key, the value and the mean, before it reads any. Nobody else reads them here.
    """
    query = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    b = query // (G * R)
    head = query % (G * R)
    g = head // R
    first = tl.load(FIRST + b)
    position = tl.load(LENGTH) - 1 - first
    complete = (position + 1) // SIZE
    means = b * means_of_row + g * means_of_head
    MEAN_K = POOLED_K + means * DK
    MEAN_V = POOLED_V + means * DV
    if PIECES > 0:
        _ask_ahead(MEAN_K, MEAN_V, split * SHARE, complete, mean_step, SHARE, DK, DV, BA, PIECES)
    wait_for_last(PDL)
    let_next_start(PDL)
    if PLACE:
        kept = b * of_row + g * of_head
        _place(P + b * stride + G * DK, KEYS + kept * DK, VALUES + kept * DV, MEAN_K, MEAN_V,
               LENGTH, first, position, step, mean_step, g, split,
               SIZE, SHARE, G, DK, DV, BH, BV)  # fmt: skip
    c = tl.arange(0, BK)
    w = tl.arange(0, BV)
    q = tl.load(P + b * stride + head * DK + c, mask=c < DK, other=0.0).to(tl.float32) * scale
    # Every lane runs a softmax of its own over its blocks; the ends are joined.
    top = tl.full([BN], float("-inf"), tl.float32)
    total = tl.zeros([BN], tl.float32)
    acc = tl.zeros([BN, BV], tl.float32)
    for i in tl.range(0, SHARE, BN, num_stages=STAGES):
        n = split * SHARE + i + tl.arange(0, BN)
        real = n < complete
        at = n.to(tl.int64) * mean_step
        k_mask = real[:, None] & (c < DK)[None, :]
        k = tl.load(MEAN_K + at[:, None] * DK + c[None, :], mask=k_mask, other=0.0)
        v_mask = real[:, None] & (w < DV)[None, :]
        v = tl.load(MEAN_V + at[:, None] * DV + w[None, :], mask=v_mask, other=0.0)
        s = tl.sum(k.to(tl.float32) * q[None, :], 1)
        tl.store(SCORES + query * blocks + n, s, mask=real)
        s = tl.where(real, s, float("-inf"))
        higher = tl.maximum(top, s)
        base = tl.where(higher == float("-inf"), 0.0, higher)
        p = tl.exp(s - base)
        shrink = tl.exp(top - base)
        total = total * shrink + p
        acc = acc * shrink[:, None] + p[:, None] * v.to(tl.float32)
        top = higher
    highest = tl.max(top, 0)
    weight = tl.exp(top - tl.where(highest == float("-inf"), 0.0, highest))
    row = query * SPLITS + split
    tl.store(TOP + row, highest)
    tl.store(TOTAL + row, tl.sum(total * weight, 0))
    tl.store(ACC + row * DV + w, tl.sum(acc * weight[:, None], 0), mask=w < DV)
    # All stores of this program come before its arrival, and all loads of the last one after it.
    tl.debug_barrier()
    group = b * G + g
    if tl.atomic_add(ARRIVED + group, 1, sem="acq_rel") == SPLITS * R - 1:
        tl.store(ARRIVED + group, 0)
        n = tl.arange(0, BC)
        own = position // SIZE
        importance = tl.zeros([BC], tl.float32)
        for i in tl.range(0, R):
            importance += _importance(
                SCORES, ACC, TOP, TOTAL, READ, group * R + i, n, w, blocks, complete,
                SPLITS, DV, BS,
            )  # fmt: skip
        to = CHOSEN + group * NB
        tl.store(to, own.to(tl.int32))
        if NB > 1:
            # Not negative, so its bits are ordered as it is.
            order = tl.where(n < own, importance.to(tl.int32, bitcast=True), LOWEST)
            taken, slot, number = take_highest(order, NB - 1, GUESSES)
            tl.store(to + 1 + slot, n, mask=taken)
            tl.store(to + 1 + n, -1, mask=(n >= number) & (n < NB - 1))


def choose_blocks(
    projected: Tensor,
    pooled_keys: Tensor,
    pooled_values: Tensor,
    arrived: Tensor,
    *,
    heads: int,
    length: Tensor,
    first: Tensor,
    block_size: int,
    num_blocks: int,
    buffers: tuple[Tensor, Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention to the means of the complete blocks, and the most important of them.

    Args:
        projected: Rows that begin with the queries (h*k) `[b n]`.
        pooled_keys: Means of the keys `[b c g k]`, float32; c is at most `MOST_BLOCKS`.
        pooled_values: Means of the values `[b c g v]`, float32; they lie as those of the keys do.
        arrived: Counters `[b g]`, int32, all 0; they are 0 again afterwards.
        heads: Query heads h.
        length: Tokens so far, the newest included: int64 `[1]`.
        first: First real position of every row `[b]`, int64.
        block_size: Tokens of a block.
        num_blocks: Blocks that are taken, the newest token's own among them.
        buffers: Keys and values `[b capacity g ...]`, if this is to write the newest token's, which
            stand behind the queries, and the mean of a block that they complete: `place_token`
            without rotation, with as many key heads as query heads.

    Returns:
        What the branch read `[b h v]`, float32, and the blocks `[b g n]`, int32: the own one, then
        the most important ones by number, of equals the earlier ones; -1 where there is none.

    Raises:
        ValueError: Buffers are given, and key heads are fewer than query heads.
    """
    (batch, blocks, groups, width), wide = pooled_keys.shape, pooled_values.shape[-1]
    if buffers is not None and groups != heads:
        raise ValueError(f"buffers: got {groups} key heads, must be None or have {heads}")
    share = triton.cdiv(blocks, min(32, max(1, _PROGRAMS // (batch * heads))))
    share = triton.cdiv(share, _AT_A_TIME) * _AT_A_TIME
    splits = triton.cdiv(blocks, share)
    size = max(2, triton.next_power_of_2(blocks))
    count = min(num_blocks, blocks + 1)
    scores = pooled_keys.new_empty(batch, heads, blocks)
    acc = pooled_keys.new_empty(batch * heads * splits, wide)
    top, total = (pooled_keys.new_empty(len(acc)) for _ in range(2))
    read = pooled_keys.new_empty(batch, heads, wide)
    chosen = arrived.new_empty(batch, groups, count)
    early = overlaps(projected.device)
    keys, values = buffers or (pooled_keys, pooled_values)
    _block_kernel[(batch * heads, splits)](
        projected, pooled_keys, pooled_values, keys, values, length, first, scores, acc, top,
        total, arrived, read, chosen, width**-0.5, blocks, projected.stride(0),
        *row_strides(keys, values), *row_strides(pooled_keys, pooled_values),
        SIZE=block_size, NB=count, SHARE=share, SPLITS=splits,
        G=groups, R=heads // groups, DK=width, DV=wide,
        BN=_AT_A_TIME, BK=triton.next_power_of_2(width), BV=triton.next_power_of_2(wide),
        BS=triton.next_power_of_2(splits), BC=size, BH=triton.next_power_of_2(-(-width // 2)),
        BA=triton.next_power_of_2(share), STAGES=_STAGES, GUESSES=_GUESSES,
        PLACE=buffers is not None,
        PIECES=pieces(_PIECES, pooled_keys, pooled_values) if early else 0, PDL=early, num_warps=4,
        maxnreg=_REGISTERS, launch_pdl=early,
    )  # fmt: skip
    return read, chosen
