# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Triton kernels for attention under a byte mask, tile by tile and past the empty tiles.

One launch serves one block of queries, whose mask and lists of tiles `triton_index` makes. Scores
are in base 2: `scale` has been multiplied by log2(e). Importing this module imports Triton.

Axes: b batch, t queries, c those of one block, m keys, h query heads, g key heads, k and v widths.
"""

from typing import no_type_check

import triton
import triton.language as tl

from lt2theory.ops.interpreting import whole_range
from lt2theory.ops.triton_grid import place_of
from lt2theory.ops.triton_softmax import add_tile, finish
from lt2theory.ops.workload import is_interpreting

if is_interpreting():
    range = whole_range


@triton.jit
@no_type_check
def forward_kernel(
    Q, K, V, MASK, LIST, COUNT, OUT, LSE, scale, T, M, START, C, S, LINES, ALONG,
    H: tl.constexpr, G: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
    LINE: tl.constexpr, TILE: tl.constexpr, PREC: tl.constexpr,
):  # fmt: skip
    """One tile of queries of one head; softmax online over the key tiles in its list."""
    # The last tiles have the most keys and start first.
    tiles = LINES * LINE // BM
    tile, head = place_of(tiles)
    tile = tiles - 1 - tile
    b = head // H
    h = head % H
    g = h // (H // G)
    row = tile * BM + tl.arange(0, BM)
    t = START + row
    c = tl.arange(0, BK)
    w = tl.arange(0, BV)
    at = (b * T + t) * H + h
    q_mask = (t < T)[:, None] & (c < DK)[None, :]
    q = tl.load(Q + at[:, None] * DK + c[None, :], mask=q_mask, other=0.0)
    top = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, BV], tl.float32)
    line = b * LINES + (tile * BM) // LINE
    count = tl.load(COUNT + line)
    for i in range(0, count * (TILE // BN)):
        first = tl.load(LIST + line * ALONG + i // (TILE // BN)) * TILE + (i % (TILE // BN)) * BN
        m = first + tl.arange(0, BN)
        key = (b * M + m) * G + g
        k_mask = (m < M)[:, None] & (c < DK)[None, :]
        k = tl.load(K + key[:, None] * DK + c[None, :], mask=k_mask, other=0.0)
        v_mask = (m < M)[:, None] & (w < DV)[None, :]
        v = tl.load(V + key[:, None] * DV + w[None, :], mask=v_mask, other=0.0)
        taken = tl.load(MASK + (b * C + row[:, None]) * S + m[None, :])
        s = tl.dot(q, tl.trans(k), input_precision=PREC) * scale
        s = tl.where(taken != 0, s, float("-inf"))
        top, total, acc = add_tile(s, v, top, total, acc, True, PREC)
    o, lse = finish(top, total, acc, True)
    o_mask = (t < T)[:, None] & (w < DV)[None, :]
    tl.store(OUT + at[:, None] * DV + w[None, :], o.to(OUT.dtype.element_ty), mask=o_mask)
    tl.store(LSE + at, lse, mask=t < T)


@triton.jit
@no_type_check
def query_gradient_kernel(
    Q, K, V, MASK, LIST, COUNT, DO, LSE, DELTA, DQ, scale, factor,
    T, M, START, C, S, LINES, ALONG,
    H: tl.constexpr, G: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
    LINE: tl.constexpr, TILE: tl.constexpr, PREC: tl.constexpr,
):  # fmt: skip
    """The probabilities again, for the gradient of one tile of queries of one head."""
    tiles = LINES * LINE // BM
    tile, head = place_of(tiles)
    tile = tiles - 1 - tile
    b = head // H
    h = head % H
    g = h // (H // G)
    row = tile * BM + tl.arange(0, BM)
    t = START + row
    c = tl.arange(0, BK)
    w = tl.arange(0, BV)
    at = (b * T + t) * H + h
    q_mask = (t < T)[:, None] & (c < DK)[None, :]
    o_mask = (t < T)[:, None] & (w < DV)[None, :]
    q = tl.load(Q + at[:, None] * DK + c[None, :], mask=q_mask, other=0.0)
    do = tl.load(DO + at[:, None] * DV + w[None, :], mask=o_mask, other=0.0)
    lse = tl.load(LSE + at, mask=t < T, other=0.0)
    delta = tl.load(DELTA + at, mask=t < T, other=0.0)
    dq = tl.zeros([BM, BK], tl.float32)
    line = b * LINES + (tile * BM) // LINE
    count = tl.load(COUNT + line)
    for i in range(0, count * (TILE // BN)):
        first = tl.load(LIST + line * ALONG + i // (TILE // BN)) * TILE + (i % (TILE // BN)) * BN
        m = first + tl.arange(0, BN)
        key = (b * M + m) * G + g
        k_mask = (m < M)[:, None] & (c < DK)[None, :]
        k = tl.load(K + key[:, None] * DK + c[None, :], mask=k_mask, other=0.0)
        v_mask = (m < M)[:, None] & (w < DV)[None, :]
        v = tl.load(V + key[:, None] * DV + w[None, :], mask=v_mask, other=0.0)
        taken = tl.load(MASK + (b * C + row[:, None]) * S + m[None, :])
        s = tl.dot(q, tl.trans(k), input_precision=PREC) * scale
        p = tl.where(taken != 0, tl.exp2(s - lse[:, None]), 0.0)
        dp = tl.dot(do, tl.trans(v), input_precision=PREC)
        ds = p * (dp - delta[:, None])
        dq = tl.dot(ds.to(k.dtype), k, acc=dq, input_precision=PREC)
    dq = dq * factor
    tl.store(DQ + at[:, None] * DK + c[None, :], dq.to(DQ.dtype.element_ty), mask=q_mask)


@triton.jit
@no_type_check
def key_gradient_kernel(
    Q, K, V, MASK, LIST, COUNT, DO, LSE, DELTA, DK_OUT, DV_OUT, scale, factor,
    T, M, START, C, S, LINES, ALONG,
    H: tl.constexpr, G: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
    LINE: tl.constexpr, TILE: tl.constexpr, PREC: tl.constexpr,
):  # fmt: skip
    """What one block of queries adds to the gradients of one tile of keys of one key head.

    Only this program touches them, so the sums have a fixed order.
    """
    tile, head = place_of(tl.cdiv(tl.minimum(M, M - T + START + C), BN))
    b = head // G
    g = head % G
    m = tile * BN + tl.arange(0, BN)
    c = tl.arange(0, BK)
    w = tl.arange(0, BV)
    key = (b * M + m) * G + g
    k_mask = (m < M)[:, None] & (c < DK)[None, :]
    v_mask = (m < M)[:, None] & (w < DV)[None, :]
    k = tl.load(K + key[:, None] * DK + c[None, :], mask=k_mask, other=0.0)
    v = tl.load(V + key[:, None] * DV + w[None, :], mask=v_mask, other=0.0)
    dk = tl.zeros([BN, BK], tl.float32)
    dv = tl.zeros([BN, BV], tl.float32)
    line = b * LINES + (tile * BN) // LINE
    count = tl.load(COUNT + line)
    for j in range(0, H // G):
        for i in range(0, count * (TILE // BM)):
            first = tl.load(LIST + line * ALONG + i // (TILE // BM)) * TILE
            row = first + (i % (TILE // BM)) * BM + tl.arange(0, BM)
            t = START + row
            at = (b * T + t) * H + g * (H // G) + j
            q_mask = (t < T)[:, None] & (c < DK)[None, :]
            o_mask = (t < T)[:, None] & (w < DV)[None, :]
            q = tl.load(Q + at[:, None] * DK + c[None, :], mask=q_mask, other=0.0)
            do = tl.load(DO + at[:, None] * DV + w[None, :], mask=o_mask, other=0.0)
            lse = tl.load(LSE + at, mask=t < T, other=0.0)
            delta = tl.load(DELTA + at, mask=t < T, other=0.0)
            taken = tl.load(MASK + (b * C + row[:, None]) * S + m[None, :])
            s = tl.dot(k, tl.trans(q), input_precision=PREC) * scale
            p = tl.where(tl.trans(taken) != 0, tl.exp2(s - lse[None, :]), 0.0)
            dv = tl.dot(p.to(do.dtype), do, acc=dv, input_precision=PREC)
            dp = tl.dot(v, tl.trans(do), input_precision=PREC)
            ds = p * (dp - delta[None, :])
            dk = tl.dot(ds.to(q.dtype), q, acc=dk, input_precision=PREC)
    dk_at = DK_OUT + key[:, None] * DK + c[None, :]
    dv_at = DV_OUT + key[:, None] * DV + w[None, :]
    tl.store(dk_at, tl.load(dk_at, mask=k_mask, other=0.0) + dk * factor, mask=k_mask)
    tl.store(dv_at, tl.load(dv_at, mask=v_mask, other=0.0) + dv, mask=v_mask)
