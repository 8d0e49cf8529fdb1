# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""NSA's compressed branch for one new token, and the choice of blocks by its probabilities.

One kernel: the means of the blocks are split among programs, and whichever program of a key head
comes last joins what all have found and takes the most important blocks.
"""

from typing import no_type_check

import triton
import triton.language as tl
from torch import Tensor

from lt2theory.ops.fused.triton_chosen_attention import join_shares

MOST_BLOCKS = 8192
"""Blocks of a buffer that one program can rank."""
_AT_A_TIME = 32


@triton.jit
@no_type_check
def _block_kernel(
    P, POOLED_K, POOLED_V, LENGTH, FIRST, SCORES, ACC, TOP, TOTAL, ARRIVED, READ, CHOSEN,
    scale, blocks, stride,
    SIZE: tl.constexpr, NB: tl.constexpr, SHARE: tl.constexpr, SPLITS: tl.constexpr,
    G: tl.constexpr, R: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, BS: tl.constexpr,
    BC: tl.constexpr, BT: tl.constexpr,
):  # fmt: skip
    """One program a row, query head and share of the blocks; scores lie as `[b h c]`."""
    query = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    b = query // (G * R)
    head = query % (G * R)
    g = head // R
    position = tl.load(LENGTH) - 1 - tl.load(FIRST + b)
    complete = (position + 1) // SIZE
    c = tl.arange(0, BK)
    w = tl.arange(0, BV)
    q = tl.load(P + b * stride + head * DK + c, mask=c < DK, other=0.0).to(tl.float32) * scale
    top = tl.full([1], float("-inf"), tl.float32)
    total = tl.zeros([1], tl.float32)
    acc = tl.zeros([BV], tl.float32)
    start = complete * 0 + split * SHARE
    stop = tl.minimum(start + SHARE, complete)
    while start < stop:
        n = start + tl.arange(0, BN)
        real = n < stop
        at = (b * blocks + n) * G + g
        k_mask = real[:, None] & (c < DK)[None, :]
        k = tl.load(POOLED_K + at[:, None] * DK + c[None, :], mask=k_mask, other=0.0)
        v_mask = real[:, None] & (w < DV)[None, :]
        v = tl.load(POOLED_V + at[:, None] * DV + w[None, :], mask=v_mask, other=0.0)
        s = tl.sum(k * q[None, :], 1)
        tl.store(SCORES + query * blocks + n, s, mask=real)
        s = tl.where(real, s, float("-inf"))
        higher = tl.maximum(top, tl.max(s, 0))
        p = tl.exp(s - higher)
        shrink = tl.exp(top - higher)
        total = total * shrink + tl.sum(p, 0)
        acc = acc * shrink + tl.sum(p[:, None] * v, 0)
        top = higher
        start += BN
    row = query * SPLITS + split
    one = tl.arange(0, 1)
    tl.store(TOP + row + one, top)
    tl.store(TOTAL + row + one, total)
    tl.store(ACC + row * DV + w, acc, mask=w < DV)
    # All stores of this program come before its arrival, and all loads of the last one after it.
    tl.debug_barrier()
    group = b * G + g
    if tl.atomic_add(ARRIVED + group, 1, sem="acq_rel") == SPLITS * R - 1:
        tl.store(ARRIVED + group, 0)
        n = tl.arange(0, BC)
        share = tl.arange(0, BS)
        importance = tl.zeros([BC], tl.float32)
        for i in tl.range(0, R):
            asked = group * R + i
            o = join_shares(ACC, TOP, TOTAL, asked * SPLITS, w, SPLITS, 1, DV, BS)
            tl.store(READ + asked * DV + w, o, mask=w < DV)
            at = asked * SPLITS + share
            tops = tl.load(TOP + at, mask=share < SPLITS, other=float("-inf"), cache_modifier=".cg")
            totals = tl.load(TOTAL + at, mask=share < SPLITS, other=0.0, cache_modifier=".cg")
            highest = tl.max(tops, 0)
            highest = tl.where(highest == float("-inf"), 0.0, highest)
            whole = tl.sum(totals * tl.exp(tops - highest), 0)
            s = tl.load(
                SCORES + asked * blocks + n, mask=n < complete, other=float("-inf"),
                cache_modifier=".cg",
            )  # fmt: skip
            importance += tl.exp(s - highest) / tl.where(whole > 0, whole, 1.0)
        own = position // SIZE
        # Not negative, so its bits are ordered as it is; of equals the lower number goes first.
        order = (importance.to(tl.int32, bitcast=True).to(tl.int64) << 32) | (BC - 1 - n)
        ranked = tl.topk(tl.where(n < own, order, -1), BT)
        number = BC - 1 - (ranked & 0xFFFFFFFF)
        slot = tl.arange(0, BT)
        to = CHOSEN + group * NB
        tl.store(to, own.to(tl.int32))
        number = tl.where(ranked < 0, -1, number).to(tl.int32)
        tl.store(to + 1 + slot, number, mask=slot < NB - 1)


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
        by importance, of equals the earlier first; -1 where there is none.
    """
    (batch, blocks, groups, width), wide = pooled_keys.shape, pooled_values.shape[-1]
    share = max(64, triton.next_power_of_2(triton.cdiv(blocks, 32)))
    splits = triton.cdiv(blocks, share)
    size = max(2, triton.next_power_of_2(blocks))
    count = min(num_blocks, blocks + 1)
    scores = pooled_keys.new_empty(batch, heads, blocks)
    acc = pooled_keys.new_empty(batch * heads * splits, wide)
    top, total = (pooled_keys.new_empty(len(acc)) for _ in range(2))
    read = pooled_keys.new_empty(batch, heads, wide)
    chosen = arrived.new_empty(batch, groups, count)
    _block_kernel[(batch * heads, splits)](
        projected, pooled_keys, pooled_values, length, first, scores, acc, top, total, arrived,
        read, chosen, width**-0.5, blocks, projected.stride(0),
        SIZE=block_size, NB=count, SHARE=share, SPLITS=splits,
        G=groups, R=heads // groups, DK=width, DV=wide,
        BN=_AT_A_TIME, BK=triton.next_power_of_2(width), BV=triton.next_power_of_2(wide),
        BS=triton.next_power_of_2(splits), BC=size,
        BT=min(size, triton.next_power_of_2(max(2, count - 1))),
        num_warps=4,
    )  # fmt: skip
    return read, chosen
