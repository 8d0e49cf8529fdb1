# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Attention of one new token to chosen blocks of a buffer and to a window, gated and joined.

One kernel: keys are split among programs, and whichever program of a key head comes last joins
what all have found, weighs the branches and applies the output gate. Where a key head has one query
head, its products fill a sixteenth of a tile and still cost less time than the loads.
"""

from dataclasses import dataclass
from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from lt2theory.ops.fused.triton_head_tiles import (
    cut_in_two,
    load_columns,
    store_columns,
    weigh_tile,
)
from lt2theory.ops.fused.triton_overlap import let_next_start, overlaps, wait_for_last
from lt2theory.ops.fused.triton_shares import find_keys, join_shares

_KEYS = 64
"""Keys of a tile."""


@triton.jit
@no_type_check
def _chosen_kernel(
    P, K, V, LENGTH, FIRST, CHOSEN, COMPRESSED, ACC, TOP, TOTAL, ARRIVED, OUT,
    scale, capacity, stride, branches_at, gate_at,
    NB: tl.constexpr, SIZE: tl.constexpr, GL: tl.constexpr, WINDOW: tl.constexpr,
    SHARE: tl.constexpr, LISTED: tl.constexpr, SPLITS: tl.constexpr,
    G: tl.constexpr, R: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, RING: tl.constexpr,
    BRANCHES: tl.constexpr, GATE: tl.constexpr,
    BR: tl.constexpr, BN: tl.constexpr, BS: tl.constexpr,
    BK: tl.constexpr, RK: tl.constexpr, BV: tl.constexpr, RV: tl.constexpr, WIDE: tl.constexpr,
    PREC: tl.constexpr, STAGES: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """One program a row, key head and share; LISTED shares of the blocks, then of the window.

    Widths are cut in two, BK and RK, BV and RV, each a power of two: little of a tile is empty.
    """
    group = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    b = group // G
    g = group % G
    wait_for_last(PDL)
    let_next_start(PDL)
    length = tl.load(LENGTH)
    first = tl.load(FIRST + b)
    r = tl.arange(0, BR)
    q_row = P + b * stride + g * R * DK
    q = load_columns(q_row, r * DK, r < R, 0, DK, BK)
    if RK > 0:
        q_rest = load_columns(q_row, r * DK, r < R, BK, DK, RK)
    top = tl.full([BR], float("-inf"), tl.float32)
    total = tl.zeros([BR], tl.float32)
    acc = tl.zeros([BR, BV], tl.float32)
    acc_rest = tl.zeros([BR, RV if RV > 0 else 16], tl.float32)
    in_window = split >= LISTED
    start = tl.where(in_window, split - LISTED, split) * SHARE
    for i in tl.range(0, SHARE, BN, num_stages=STAGES):
        n, real = find_keys(CHOSEN, start + i, in_window, b, g, length, first, capacity,
                            NB, SIZE, GL, WINDOW, RING, BN)  # fmt: skip
        at = (b * capacity + n) * G + g
        k = load_columns(K, at * DK, real, 0, DK, BK)
        s = tl.dot(q, tl.trans(k), input_precision=PREC)
        if RK > 0:
            k_rest = load_columns(K, at * DK, real, BK, DK, RK)
            s = tl.dot(q_rest, tl.trans(k_rest), s, input_precision=PREC)
        v = load_columns(V, at * DV, real, 0, DV, BV)
        s = tl.where(real[None, :], s * scale, float("-inf"))
        p, shrink, top, total = weigh_tile(s, top, total)
        acc = acc * shrink[:, None] + tl.dot(p.to(v.dtype), v, input_precision=PREC)
        if RV > 0:
            v_rest = load_columns(V, at * DV, real, BV, DV, RV)
            rest = tl.dot(p.to(v.dtype), v_rest, input_precision=PREC)
            acc_rest = acc_rest * shrink[:, None] + rest
    row = (group * R + r) * SPLITS + split
    tl.store(TOP + row, top, mask=r < R)
    tl.store(TOTAL + row, total, mask=r < R)
    store_columns(ACC, row * DV, r < R, 0, acc, DV, BV)
    if RV > 0:
        store_columns(ACC, row * DV, r < R, BV, acc_rest, DV, RV)
    # All stores of this program come before its arrival, and all loads of the last one after it.
    tl.debug_barrier()
    if tl.atomic_add(ARRIVED + group, 1, sem="acq_rel") == SPLITS - 1:
        tl.store(ARRIVED + group, 0)
        for i in tl.range(0, R):
            join_shares(ACC, TOP, TOTAL, COMPRESSED, P + b * stride, OUT, b, g * R + i,
                        branches_at, gate_at, G * R, DV, WIDE, LISTED, SPLITS, BS,
                        BRANCHES, GATE)  # fmt: skip


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
        share: Keys of one program, rounded up to whole tiles; None chooses.

    Returns:
        `out`.
    """
    gates = Gates() if gates is None else gates
    (batch, capacity, groups, width), wide = keys.shape, values.shape[-1]
    heads = out.shape[1] // wide
    blocks = 0 if chosen is None else chosen.shape[-1]
    near = 0 if window is None else min(window, capacity)
    tiles = _tiles(blocks * size, near) if share is None else triton.cdiv(share, _KEYS)
    share = tiles * _KEYS
    listed = triton.cdiv(blocks * size, share)
    splits = listed + triton.cdiv(near, share)
    rows = batch * splits * heads
    acc = out.new_empty(rows, wide, dtype=torch.float32)
    top, total = (out.new_empty(rows, dtype=torch.float32) for _ in range(2))
    (of_k, rest_k), (of_v, rest_v) = cut_in_two(width), cut_in_two(wide)
    early = overlaps(out.device)
    _chosen_kernel[(batch * groups, splits)](
        projected, keys, values, length, first, arrived if chosen is None else chosen,
        acc if compressed is None else compressed, acc, top, total, arrived, out,
        width**-0.5, capacity, projected.stride(0), gates.branches or 0, gates.output or 0,
        NB=blocks, SIZE=size, GL=1 if chosen is None else chosen.shape[1], WINDOW=near,
        SHARE=share, LISTED=listed, SPLITS=splits, G=groups, R=heads // groups, DK=width, DV=wide,
        RING=ring, BRANCHES=gates.branches is not None, GATE=gates.output is not None,
        BR=max(16, triton.next_power_of_2(heads // groups)), BN=_KEYS,
        BS=triton.next_power_of_2(splits), BK=of_k, RK=rest_k, BV=of_v, RV=rest_v,
        WIDE=triton.next_power_of_2(wide),
        PREC="ieee" if out.dtype == torch.float32 else "tf32", STAGES=1 if tiles == 1 else 3,
        num_warps=4, PDL=early, launch_pdl=early,
    )  # fmt: skip
    return out


def _tiles(listed: int, near: int) -> int:
    """Tiles of keys that one program takes: one, or as many as leave 64 programs a branch."""
    # Programs with nothing to wait for between their loads were fastest on an H200 at every size
    # measured; 64 is what the last of them joins in one go.
    tiles: int = triton.cdiv(max(listed, near), 64 * _KEYS)
    return max(1, tiles)
