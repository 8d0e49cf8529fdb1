# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Attention of one new token to chosen blocks of a buffer and to a window, gated and joined.

One kernel: keys are split among programs, and whichever program of a key head comes last joins
what all have found, weighs the branches and applies the output gate.
"""

from dataclasses import dataclass
from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

_WARPS, _STAGES = 4, 5
"""Warps of a program, stages of its pipeline: two a tile, as places come first."""


@triton.jit
@no_type_check
def join_shares(
    ACC, TOP, TOTAL, row, w,
    COUNT: tl.constexpr, R: tl.constexpr, DV: tl.constexpr, BS: tl.constexpr,
):  # fmt: skip
    """Read-out of one query head from COUNT shares, the first of them at `row`."""
    s = tl.arange(0, BS)
    at = row + s * R
    # Other programs wrote these: the first level of this one's cache may hold what was before.
    top = tl.load(TOP + at, mask=s < COUNT, other=float("-inf"), cache_modifier=".cg")
    total = tl.load(TOTAL + at, mask=s < COUNT, other=0.0, cache_modifier=".cg")
    highest = tl.max(top, 0)
    weight = tl.exp(top - tl.where(highest == float("-inf"), 0.0, highest))
    mask = (s < COUNT)[:, None] & (w < DV)[None, :]
    acc = tl.load(ACC + at[:, None] * DV + w[None, :], mask=mask, other=0.0, cache_modifier=".cg")
    whole = tl.sum(total * weight, 0)
    return tl.sum(acc * weight[:, None], 0) / tl.where(whole > 0, whole, 1.0)


@triton.jit
@no_type_check
def _chosen_kernel(
    P, K, V, LENGTH, FIRST, CHOSEN, COMPRESSED, ACC, TOP, TOTAL, ARRIVED, OUT,
    scale, capacity, stride, branches_at, gate_at,
    NB: tl.constexpr, SIZE: tl.constexpr, GL: tl.constexpr, WINDOW: tl.constexpr,
    SHARE: tl.constexpr, LISTED: tl.constexpr, SPLITS: tl.constexpr,
    G: tl.constexpr, R: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, RING: tl.constexpr,
    BRANCHES: tl.constexpr, GATE: tl.constexpr,
    BR: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, BS: tl.constexpr,
    PREC: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """One program a row, key head and share; LISTED shares of the blocks, then of the window."""
    group = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    b = group // G
    g = group % G
    length = tl.load(LENGTH)
    first = tl.load(FIRST + b)
    r = tl.arange(0, BR)
    c = tl.arange(0, BK)
    w = tl.arange(0, BV)
    q_mask = (r < R)[:, None] & (c < DK)[None, :]
    q_at = P + b * stride + (g * R + r[:, None]) * DK + c[None, :]
    q = tl.load(q_at, mask=q_mask, other=0.0)
    top = tl.full([BR], float("-inf"), tl.float32)
    total = tl.zeros([BR], tl.float32)
    acc = tl.zeros([BR, BV], tl.float32)
    in_window = split >= LISTED
    start = tl.where(in_window, split - LISTED, split) * SHARE
    for i in tl.range(0, SHARE, BN, num_stages=STAGES):
        e = start + i + tl.arange(0, BN)
        n = length - WINDOW + e
        real = (e < WINDOW) & (n >= first)
        if NB > 0:
            asked = (e < NB * SIZE) & (split < LISTED)
            listed = CHOSEN + (b * GL + g % GL) * NB
            block = tl.load(listed + e // SIZE, mask=asked, other=-1).to(tl.int64)
            token = first + block * SIZE + e % SIZE
            real = tl.where(in_window, real, (block >= 0) & (token < length))
            n = tl.where(in_window, n, token)
        if RING:
            n = n % capacity
        at = (b * capacity + n) * G + g
        k_mask = real[:, None] & (c < DK)[None, :]
        k = tl.load(K + at[:, None] * DK + c[None, :], mask=k_mask, other=0.0)
        v_mask = real[:, None] & (w < DV)[None, :]
        v = tl.load(V + at[:, None] * DV + w[None, :], mask=v_mask, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision=PREC) * scale
        s = tl.where(real[None, :], s, float("-inf"))
        higher = tl.maximum(top, tl.max(s, 1))
        base = tl.where(higher == float("-inf"), 0.0, higher)
        p = tl.exp(s - base[:, None])
        shrink = tl.exp(top - base)
        total = total * shrink + tl.sum(p, 1)
        acc = acc * shrink[:, None] + tl.dot(p.to(v.dtype), v, input_precision=PREC)
        top = higher
    row = (group * SPLITS + split) * R + r
    tl.store(TOP + row, top, mask=r < R)
    tl.store(TOTAL + row, total, mask=r < R)
    tl.store(ACC + row[:, None] * DV + w[None, :], acc, mask=(r < R)[:, None] & (w < DV)[None, :])
    # All stores of this program come before its arrival, and all loads of the last one after it.
    tl.debug_barrier()
    if tl.atomic_add(ARRIVED + group, 1, sem="acq_rel") == SPLITS - 1:
        tl.store(ARRIVED + group, 0)
        base_row = group * SPLITS * R
        for i in tl.range(0, R):
            head = g * R + i
            place = (b * G * R + head) * DV + w
            o = tl.zeros([BV], tl.float32)
            if NB > 0:
                o += join_shares(ACC, TOP, TOTAL, base_row + i, w, LISTED, R, DV, BS)
            if BRANCHES:
                weigh = P + b * stride + branches_at + head * 3
                o *= tl.sigmoid(tl.load(weigh + 1).to(tl.float32))
                read = tl.load(COMPRESSED + place, mask=w < DV, other=0.0)
                o += tl.sigmoid(tl.load(weigh).to(tl.float32)) * read
            if WINDOW > 0:
                near = base_row + LISTED * R + i
                local = join_shares(ACC, TOP, TOTAL, near, w, SPLITS - LISTED, R, DV, BS)
                if BRANCHES:
                    local *= tl.sigmoid(tl.load(weigh + 2).to(tl.float32))
                o += local
            o = o.to(OUT.dtype.element_ty)
            if GATE:
                gate = tl.load(P + b * stride + gate_at + head * DV + w, mask=w < DV, other=0.0)
                o = (o.to(tl.float32) * tl.sigmoid(gate.to(tl.float32))).to(o.dtype)
            tl.store(OUT + place, o, mask=w < DV)


@dataclass(frozen=True)
class Gates:
    """Where, in a row of projections, the gates stand.

    Attributes:
        branches: First of three a head: the compressed, chosen and window branch; or None.
        output: First of h*v of the output, or None.
    """

    branches: int | None = None
    output: int | None = None


def chosen_attention(
    projected: Tensor,
    keys: Tensor,
    values: Tensor,
    arrived: Tensor,
    out: Tensor,
    *,
    length: Tensor,
    first: Tensor,
    chosen: Tensor | None = None,
    size: int = 1,
    window: int | None = None,
    ring: bool = False,
    compressed: Tensor | None = None,
    gates: Gates | None = None,
    share: int | None = None,
) -> Tensor:
    """Softmax attention to chosen blocks, to a window, or the gated sum of both and a third read.

    Without gates of branches there is one branch: `chosen`, or else the window.

    Args:
        projected: Rows that begin with the queries (h*k) `[b n]`; the gates stand in them raw.
        keys: `[b capacity g k]`, the newest token's among them.
        values: `[b capacity g v]`.
        arrived: Counters `[b g]`, int32, all 0; they are 0 again afterwards.
        out: Result `[b h*v]`.
        length: Tokens so far, the newest included: int64 `[1]`.
        first: First real position of every row `[b]`, int64.
        chosen: Blocks that are read `[b gl n]`, int32, counted from the row's first token; negative
            where a list is shorter; one list a key head, or one for all (gl = 1).
        size: Tokens of a block.
        window: Newest tokens that are read.
        ring: Position n lies at place n modulo the capacity.
        compressed: What the compressed branch read `[b h v]`, float32.
        gates: Where the gates stand; None for no gates.
        share: Keys of one program; None chooses.

    Returns:
        `out`.
    """
    gates = Gates() if gates is None else gates
    (batch, capacity, groups, width), wide = keys.shape, values.shape[-1]
    heads = out.shape[1] // wide
    blocks = 0 if chosen is None else chosen.shape[-1]
    near = 0 if window is None else min(window, capacity)
    share = _share(batch * groups, max(blocks * size, near), size) if share is None else share
    listed = triton.cdiv(blocks * size, share)
    splits = listed + triton.cdiv(near, share)
    rows = batch * splits * heads
    acc = out.new_empty(rows, wide, dtype=torch.float32)
    top, total = (out.new_empty(rows, dtype=torch.float32) for _ in range(2))
    _chosen_kernel[(batch * groups, splits)](
        projected, keys, values, length, first, arrived if chosen is None else chosen,
        acc if compressed is None else compressed, acc, top, total, arrived, out,
        width**-0.5, capacity, projected.stride(0), gates.branches or 0, gates.output or 0,
        NB=blocks, SIZE=size, GL=1 if chosen is None else chosen.shape[1], WINDOW=near,
        SHARE=share, LISTED=listed, SPLITS=splits,
        G=groups, R=heads // groups, DK=width, DV=wide, RING=ring,
        BRANCHES=gates.branches is not None, GATE=gates.output is not None,
        BR=max(16, triton.next_power_of_2(heads // groups)), BN=32 if size == 1 else 64,
        BK=max(16, triton.next_power_of_2(width)), BV=max(16, triton.next_power_of_2(wide)),
        BS=triton.next_power_of_2(max(listed, splits - listed)),
        PREC="ieee" if out.dtype == torch.float32 else "tf32", STAGES=_STAGES,
        num_warps=_WARPS,
    )  # fmt: skip
    return out


def _share(groups: int, longest: int, size: int) -> int:
    """Keys of one program: enough programs to fill a device, at most 32 shares of a branch."""
    many = 512 if size == 1 else 256  # lone keys take longer to find: fewer programs look for them
    share = many if groups >= 64 else 128 if groups >= 32 else 64
    return int(max(share, triton.next_power_of_2(triton.cdiv(longest, 32))))
