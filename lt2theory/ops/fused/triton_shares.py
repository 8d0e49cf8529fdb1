# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Shares of an attention to chosen keys and a window: which keys they hold, and how they join.

The keys are split among programs. Each leaves, for every query head, the highest score of its
share, the sum of the weights and the weighted values; whichever program comes last joins them.
"""

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def find_keys(
    CHOSEN, at, in_window, b, g, length, first, capacity,
    NB: tl.constexpr, SIZE: tl.constexpr, GL: tl.constexpr, WINDOW: tl.constexpr,
    RING: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Places of BN keys, of the window or else of the chosen blocks, and which are real."""
    t = tl.arange(0, BN)
    n = length - WINDOW + at + t
    real = (at + t < WINDOW) & (n >= first)
    if NB > 0:
        # Where a tile lies within one block, its number is one number.
        e = at if SIZE % BN == 0 else at + t
        asked = (e < NB * SIZE) & (in_window == 0)
        listed = CHOSEN + (b * GL + g % GL) * NB
        block = tl.load(listed + e // SIZE, mask=asked, other=-1).to(tl.int64)
        token = first + block * SIZE + (e % SIZE + t if SIZE % BN == 0 else e % SIZE)
        real = tl.where(in_window, real, (block >= 0) & (token < length))
        n = tl.where(in_window, n, token)
    if RING:
        n = n % capacity
    return n, real


@triton.jit
@no_type_check
def join_shares(
    ACC, TOP, TOTAL, COMPRESSED, P_ROW, OUT, b, head, branches_at, gate_at,
    H: tl.constexpr, DV: tl.constexpr, BV: tl.constexpr,
    LISTED: tl.constexpr, SPLITS: tl.constexpr, BS: tl.constexpr,
    BRANCHES: tl.constexpr, GATE: tl.constexpr,
):  # fmt: skip
    """Write the read-out of a query head; LISTED shares, then the window's.

    Either branch is a softmax of its own.
    """
    w = tl.arange(0, BV)
    s = tl.arange(0, BS)
    row = (b * H + head).to(tl.int64)
    at = row * SPLITS + s
    # Other programs wrote these: the first level of this one's cache may hold what was before.
    top = tl.load(TOP + at, mask=s < SPLITS, other=float("-inf"), cache_modifier=".cg")
    total = tl.load(TOTAL + at, mask=s < SPLITS, other=0.0, cache_modifier=".cg")
    read = tl.zeros([BV], tl.float32)
    listed_gate = 1.0
    near_gate = 1.0
    if BRANCHES:
        weigh = P_ROW + branches_at + head * 3
        compressed_gate = tl.sigmoid(tl.load(weigh).to(tl.float32))
        listed_gate = tl.sigmoid(tl.load(weigh + 1).to(tl.float32))
        near_gate = tl.sigmoid(tl.load(weigh + 2).to(tl.float32))
        read = tl.load(COMPRESSED + row * DV + w, mask=w < DV, other=0.0) * compressed_gate
    out_gate = tl.full([BV], 1.0, tl.float32)
    if GATE:
        gate = tl.load(P_ROW + gate_at + head * DV + w, mask=w < DV, other=0.0)
        out_gate = tl.sigmoid(gate.to(tl.float32))
    near = s >= LISTED
    listed_top = tl.max(tl.where(near, float("-inf"), top), 0)
    near_top = tl.max(tl.where(near, top, float("-inf")), 0)
    listed_top = tl.where(listed_top == float("-inf"), 0.0, listed_top)
    near_top = tl.where(near_top == float("-inf"), 0.0, near_top)
    mass = total * tl.exp(top - tl.where(near, near_top, listed_top))
    listed_mass = tl.sum(tl.where(near, 0.0, mass), 0)
    near_mass = tl.sum(tl.where(near, mass, 0.0), 0)
    listed_gate /= tl.where(listed_mass > 0, listed_mass, 1.0)
    near_gate /= tl.where(near_mass > 0, near_mass, 1.0)
    sums = tl.zeros([16, BV], tl.float32)
    for i in tl.range(0, SPLITS, 16):
        n = i + tl.arange(0, 16)
        share_at = row * SPLITS + n
        height = tl.load(TOP + share_at, mask=n < SPLITS, other=float("-inf"), cache_modifier=".cg")
        acc_at = ACC + share_at[:, None] * DV + w[None, :]
        mask = (n < SPLITS)[:, None] & (w < DV)[None, :]
        acc = tl.load(acc_at, mask=mask, other=0.0, cache_modifier=".cg")
        weight = tl.exp(height - tl.where(n >= LISTED, near_top, listed_top))
        weight *= tl.where(n >= LISTED, near_gate, listed_gate)
        sums += acc * weight[:, None]
    o = (tl.sum(sums, 0) + read).to(OUT.dtype.element_ty)
    o = (o.to(tl.float32) * out_gate).to(o.dtype)
    tl.store(OUT + row * DV + w, o, mask=w < DV)
