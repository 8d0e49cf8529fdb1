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

from lt2theory.ops.fused.triton_lone_attention import lone_kernel
from lt2theory.ops.fused.triton_overlap import let_next_start, overlaps, wait_for_last
from lt2theory.ops.fused.triton_shares import find_keys, join_shares
from lt2theory.ops.triton_softmax import add_tile


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
    PREC: tl.constexpr, STAGES: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """One program a row, key head and share; LISTED shares of the blocks, then of the window."""
    group = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    b = group // G
    g = group % G
    wait_for_last(PDL)
    let_next_start(PDL)
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
        n, real = find_keys(CHOSEN, start + i, in_window, b, g, length, first, capacity,
                            NB, SIZE, GL, WINDOW, RING, BN)  # fmt: skip
        at = (b * capacity + n) * G + g
        k_mask = real[:, None] & (c < DK)[None, :]
        k = tl.load(K + at[:, None] * DK + c[None, :], mask=k_mask, other=0.0)
        v_mask = real[:, None] & (w < DV)[None, :]
        v = tl.load(V + at[:, None] * DV + w[None, :], mask=v_mask, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision=PREC) * scale
        s = tl.where(real[None, :], s, float("-inf"))
        top, total, acc = add_tile(s, v, top, total, acc, False, PREC)
    row = (group * R + r) * SPLITS + split
    tl.store(TOP + row, top, mask=r < R)
    tl.store(TOTAL + row, total, mask=r < R)
    tl.store(ACC + row[:, None] * DV + w[None, :], acc, mask=(r < R)[:, None] & (w < DV)[None, :])
    # All stores of this program come before its arrival, and all loads of the last one after it.
    tl.debug_barrier()
    if tl.atomic_add(ARRIVED + group, 1, sem="acq_rel") == SPLITS - 1:
        tl.store(ARRIVED + group, 0)
        for i in tl.range(0, R):
            join_shares(ACC, TOP, TOTAL, COMPRESSED, P + b * stride, OUT, b, g * R + i,
                        branches_at, gate_at, G * R, 1, DV, BV, LISTED, SPLITS, BS, 16,
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
    lists = 1 if chosen is None else chosen.shape[1]
    near = 0 if window is None else min(window, capacity)
    tiles = _tiles(batch, heads, groups, lists, size)
    programs = batch * groups // tiles.heads
    if share is None:
        share = _share(tiles, programs, blocks * size, near)
    share = triton.cdiv(share, tiles.keys) * tiles.keys
    listed = triton.cdiv(blocks * size, share)
    splits = listed + triton.cdiv(near, share)
    rows = batch * splits * heads
    acc = out.new_empty(rows, wide, dtype=torch.float32)
    top, total = (out.new_empty(rows, dtype=torch.float32) for _ in range(2))
    early = overlaps(out.device)
    fixed = {
        "NB": blocks, "SIZE": size, "GL": lists, "WINDOW": near,
        "SHARE": share, "LISTED": listed, "SPLITS": splits, "DK": width, "DV": wide, "RING": ring,
        "BRANCHES": gates.branches is not None, "GATE": gates.output is not None,
        "BN": tiles.keys, "BK": max(16, triton.next_power_of_2(width)),
        "BV": max(16, triton.next_power_of_2(wide)), "BS": triton.next_power_of_2(splits),
        "STAGES": tiles.stages, "num_warps": 4, "PDL": early, "launch_pdl": early,
    }  # fmt: skip
    if heads == groups:
        fixed |= {"H": heads, "HEADS": tiles.heads, "maxnreg": tiles.registers}
        kernel = lone_kernel
    else:
        of_one = heads // groups
        fixed |= {"G": groups, "R": of_one, "BR": max(16, triton.next_power_of_2(of_one))}
        fixed["PREC"] = "ieee" if out.dtype == torch.float32 else "tf32"
        kernel = _chosen_kernel
    kernel[(programs, splits)](
        projected, keys, values, length, first, arrived if chosen is None else chosen,
        acc if compressed is None else compressed, acc, top, total, arrived, out,
        width**-0.5, capacity, projected.stride(0), gates.branches or 0, gates.output or 0,
        **fixed,
    )  # fmt: skip
    return out


@dataclass(frozen=True)
class _Tiles:
    """What one program takes at a time: the fastest of those measured on an H200.

    Attributes:
        heads: Key heads.
        keys: Keys.
        stages: Of its pipeline.
        registers: Of a thread, at most.
        programs: Those that are at work at once.
    """

    heads: int
    keys: int
    stages: int = 5
    registers: int = 128
    programs: int = 528


def _tiles(batch: int, heads: int, groups: int, lists: int, size: int) -> _Tiles:
    """Several heads a program where they read the same keys and there are programs enough."""
    if heads != groups:
        return _Tiles(1, 32 if size == 1 else 64)
    fit = [n for n in (4, 2) if lists == 1 and groups % n == 0 and batch * groups // n >= 8]
    if not fit:
        return _Tiles(1, 16)
    if batch * groups // fit[0] < 16:  # many programs a head: each has time for larger tiles
        return _Tiles(fit[0], 32 // fit[0], stages=4, registers=255, programs=264)
    return _Tiles(fit[0], 16 // fit[0], programs=396)


def _share(tiles: _Tiles, groups: int, listed: int, near: int) -> int:
    """Keys of one program: the fewest with which all programs are at work at once, at most 64."""
    splits = min(64, max(2, tiles.programs // groups))  # a branch has programs of its own
    share = tiles.keys
    while triton.cdiv(listed, share) + triton.cdiv(near, share) > splits:
        share += tiles.keys
    return share
