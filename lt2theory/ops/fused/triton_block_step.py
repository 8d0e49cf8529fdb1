# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""NSA's compressed branch for one new token, and the choice of blocks by its probabilities.

One kernel: the means of the blocks are split among programs, and whichever program of a key head
comes last joins what all have found and takes the most important blocks.
"""

from typing import no_type_check

import triton
import triton.language as tl
from torch import Tensor

from lt2theory.ops.fused.triton_highest import LOWEST, take_highest
from lt2theory.ops.fused.triton_overlap import let_next_start, overlaps, wait_for_last

MOST_BLOCKS = 8192
"""Blocks of a buffer that one program can rank."""
_AT_A_TIME, _STAGES, _PROGRAMS = 8, 4, 528
"""Blocks of a tile, stages of its pipeline, and programs that are at work at once."""
_REGISTERS, _GUESSES = 128, 16
"""Of a thread (as few as it takes for four programs a multiprocessor); at a time in the choice."""


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
    P, POOLED_K, POOLED_V, LENGTH, FIRST, SCORES, ACC, TOP, TOTAL, ARRIVED, READ, CHOSEN,
    scale, blocks, stride,
    SIZE: tl.constexpr, NB: tl.constexpr, SHARE: tl.constexpr, SPLITS: tl.constexpr,
    G: tl.constexpr, R: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, BS: tl.constexpr,
    BC: tl.constexpr, STAGES: tl.constexpr, GUESSES: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """One program a row, query head and share of the blocks; scores lie as `[b h c]`."""
    query = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    b = query // (G * R)
    head = query % (G * R)
    g = head // R
    wait_for_last(PDL)
    let_next_start(PDL)
    position = tl.load(LENGTH) - 1 - tl.load(FIRST + b)
    complete = (position + 1) // SIZE
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
        at = (b * blocks + n) * G + g
        k_mask = real[:, None] & (c < DK)[None, :]
        k = tl.load(POOLED_K + at[:, None] * DK + c[None, :], mask=k_mask, other=0.0)
        v_mask = real[:, None] & (w < DV)[None, :]
        v = tl.load(POOLED_V + at[:, None] * DV + w[None, :], mask=v_mask, other=0.0)
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
) -> tuple[Tensor, Tensor]:
    """Attention to the means of the complete blocks, and the most important of them.

    Args:
        projected: Rows that begin with the queries (h*k) `[b n]`.
        pooled_keys: Means of the keys `[b c g k]`, float32; c is at most `MOST_BLOCKS`.
        pooled_values: Means of the values `[b c g v]`, float32.
        arrived: Counters `[b g]`, int32, all 0; they are 0 again afterwards.
        heads: Query heads h.
        length: Tokens so far, the newest included: int64 `[1]`.
        first: First real position of every row `[b]`, int64.
        block_size: Tokens of a block.
        num_blocks: Blocks that are taken, the newest token's own among them.

    Returns:
        What the branch read `[b h v]`, float32, and the blocks `[b g n]`, int32: the own one, then
        the most important ones by number, of equals the earlier ones; -1 where there is none.
    """
    (batch, blocks, groups, width), wide = pooled_keys.shape, pooled_values.shape[-1]
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
    _block_kernel[(batch * heads, splits)](
        projected, pooled_keys, pooled_values, length, first, scores, acc, top, total, arrived,
        read, chosen, width**-0.5, blocks, projected.stride(0),
        SIZE=block_size, NB=count, SHARE=share, SPLITS=splits,
        G=groups, R=heads // groups, DK=width, DV=wide,
        BN=_AT_A_TIME, BK=triton.next_power_of_2(width), BV=triton.next_power_of_2(wide),
        BS=triton.next_power_of_2(splits), BC=size, STAGES=_STAGES, GUESSES=_GUESSES, PDL=early,
        num_warps=4, maxnreg=_REGISTERS, launch_pdl=early,
    )  # fmt: skip
    return read, chosen
