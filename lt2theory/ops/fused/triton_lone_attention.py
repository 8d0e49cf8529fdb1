# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Attention of one new token to chosen keys where every key head has one query head.

There is nothing to multiply as matrices, so every number is met where it is loaded: each lane runs
a softmax of its own over its keys, and only the ends are joined. Where all heads read the same
keys, a program takes several heads, which lie side by side in memory.
"""

from typing import no_type_check

import triton
import triton.language as tl

from lt2theory.ops.fused.triton_overlap import let_next_start, wait_for_last
from lt2theory.ops.fused.triton_shares import find_keys, join_shares


@triton.jit
@no_type_check
def lone_kernel(
    P, K, V, LENGTH, FIRST, CHOSEN, COMPRESSED, ACC, TOP, TOTAL, ARRIVED, OUT,
    scale, capacity, stride, branches_at, gate_at,
    NB: tl.constexpr, SIZE: tl.constexpr, GL: tl.constexpr, WINDOW: tl.constexpr,
    SHARE: tl.constexpr, LISTED: tl.constexpr, SPLITS: tl.constexpr,
    H: tl.constexpr, HEADS: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, RING: tl.constexpr,
    BRANCHES: tl.constexpr, GATE: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, BS: tl.constexpr, STAGES: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """One program a row, HEADS heads and share; LISTED shares of the blocks, then of the window."""
    group = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    b = group // (H // HEADS)
    head = group % (H // HEADS) * HEADS
    wait_for_last(PDL)
    let_next_start(PDL)
    length = tl.load(LENGTH)
    first = tl.load(FIRST + b)
    j = head + tl.arange(0, HEADS)
    c = tl.arange(0, BK)[None, None, :]
    w = tl.arange(0, BV)[None, None, :]
    q_at = P + b * stride + j[None, :, None] * DK + c
    q = tl.load(q_at, mask=c < DK, other=0.0).to(tl.float32) * scale
    top = tl.full([BN, HEADS], float("-inf"), tl.float32)
    total = tl.zeros([BN, HEADS], tl.float32)
    acc = tl.zeros([BN, HEADS, BV], tl.float32)
    in_window = split >= LISTED
    start = tl.where(in_window, split - LISTED, split) * SHARE
    for i in tl.range(0, SHARE, BN, num_stages=STAGES):
        n, real = find_keys(CHOSEN, start + i, in_window, b, head, length, first, capacity,
                            NB, SIZE, GL, WINDOW, RING, BN)  # fmt: skip
        at = ((b * capacity + n) * H)[:, None, None] + j[None, :, None]
        k = tl.load(K + at * DK + c, mask=real[:, None, None] & (c < DK), other=0.0)
        v = tl.load(V + at * DV + w, mask=real[:, None, None] & (w < DV), other=0.0)
        s = tl.where(real[:, None], tl.sum(k.to(tl.float32) * q, 2), float("-inf"))
        higher = tl.maximum(top, s)
        base = tl.where(higher == float("-inf"), 0.0, higher)
        p = tl.exp(s - base)
        shrink = tl.exp(top - base)
        total = total * shrink + p
        acc = acc * shrink[:, :, None] + p[:, :, None] * v.to(tl.float32)
        top = higher
    highest = tl.max(top, 0)
    weight = tl.exp(top - tl.where(highest == float("-inf"), 0.0, highest)[None, :])
    row = ((b * H + j) * SPLITS + split).to(tl.int64)
    tl.store(TOP + row, highest)
    tl.store(TOTAL + row, tl.sum(total * weight, 0))
    channel = tl.arange(0, BV)[None, :]
    acc_at = ACC + row[:, None] * DV + channel
    tl.store(acc_at, tl.sum(acc * weight[:, :, None], 0), mask=channel < DV)
    # All stores of this program come before its arrival, and all loads of the last one after it.
    tl.debug_barrier()
    if tl.atomic_add(ARRIVED + group, 1, sem="acq_rel") == SPLITS - 1:
        tl.store(ARRIVED + group, 0)
        join_shares(ACC, TOP, TOTAL, COMPRESSED, P + b * stride, OUT, b, head,
                    branches_at, gate_at, H, HEADS, DV, BV, LISTED, SPLITS, BS, BN,
                    BRANCHES, GATE)  # fmt: skip
