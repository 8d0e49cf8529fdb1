# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Triton kernels for attention of every query to one run of keys, `low <= key < high`.

They serve attention inside a window, and of native sparse attention its window, the own block and
the compressed branch, whose keys are means of blocks. Runs are given by LOW and HIGH or, with
WINDOW, end with the query's own key; with SEGMENTS, a query reads of its run what has its id, and
nothing where that is negative. With PARTS, gradients from other keys join the sums. Keys may come
in two numbers, `K + REST`: means keep more digits than one half has, and a choice hangs on them.
Scores are in base 2: `scale` has been multiplied by log2(e). Importing this module imports Triton.

One launch serves queries START to START + N - 1 of rows and key heads FIRST and on (`j` of them).

Axes: b batch, t queries, m keys, g key heads, r query heads of one, k and v widths, p parts.
"""

from typing import no_type_check

import triton
import triton.language as tl

from lt2theory.ops.interpreting import whole_range
from lt2theory.ops.sparse.triton_bounds import readers_of, span_of
from lt2theory.ops.triton_grid import place_of
from lt2theory.ops.triton_softmax import add_tile, finish
from lt2theory.ops.workload import is_interpreting

if is_interpreting():
    range = whole_range


@triton.jit
@no_type_check
def span_forward_kernel(
    Q, K, REST, V, LOW, HIGH, ASKING, ASKED, OUT, LSE, scale, window, T, M, FIRST, START, N,
    G: tl.constexpr, R: tl.constexpr, SPLIT: tl.constexpr, WINDOW: tl.constexpr,
    SEGMENTS: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, PREC: tl.constexpr,
):  # fmt: skip
    """One tile of queries of one head; softmax online over its keys."""
    # The last tiles may have the most keys and start first.
    tiles = tl.cdiv(N, BM)
    tile, head = place_of(tiles)
    n = (tiles - 1 - tile) * BM + tl.arange(0, BM)
    j = head // R
    r = head % R
    b = (FIRST + j) // G
    g = (FIRST + j) % G
    t = START + n
    c = tl.arange(0, BK)
    w = tl.arange(0, BV)
    at = ((b * T + t) * G + g) * R + r
    q_mask = (n < N)[:, None] & (c < DK)[None, :]
    q = tl.load(Q + at[:, None] * DK + c[None, :], mask=q_mask, other=0.0)
    low, high = span_of(LOW, HIGH, b, t, n < N, window, T, M, WINDOW)
    if SEGMENTS:
        asking = tl.load(ASKING + b * T + t, mask=n < N, other=-1)
    top = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, BV], tl.float32)
    for start in range(tl.min(low, 0) // BN * BN, tl.max(high, 0), BN):
        m = start + tl.arange(0, BN)
        key = (b * M + m) * G + g
        k_mask = (m < M)[:, None] & (c < DK)[None, :]
        k = tl.load(K + key[:, None] * DK + c[None, :], mask=k_mask, other=0.0)
        v_mask = (m < M)[:, None] & (w < DV)[None, :]
        v = tl.load(V + key[:, None] * DV + w[None, :], mask=v_mask, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision=PREC)
        if SPLIT:
            rest = tl.load(REST + key[:, None] * DK + c[None, :], mask=k_mask, other=0.0)
            s = tl.dot(q, tl.trans(rest), acc=s, input_precision=PREC)
        seen = (m[None, :] >= low[:, None]) & (m[None, :] < high[:, None])
        if SEGMENTS:
            asked = tl.load(ASKED + b * M + m, mask=m < M, other=-1)
            seen &= (asked[None, :] == asking[:, None]) & (asking >= 0)[:, None]
        s = tl.where(seen, s * scale, float("-inf"))
        top, total, acc = add_tile(s, v, top, total, acc, True, PREC)
    o, lse = finish(top, total, acc, True)
    o_mask = (n < N)[:, None] & (w < DV)[None, :]
    tl.store(OUT + at[:, None] * DV + w[None, :], o.to(OUT.dtype.element_ty), mask=o_mask)
    tl.store(LSE + at, lse, mask=n < N)


@triton.jit
@no_type_check
def span_query_gradient_kernel(
    Q, K, REST, V, LOW, HIGH, ASKING, ASKED, PARTS, TAKEN, RESULT, DO, LSE, DOTS, GATES, DQ,
    scale, window, factor, T, M, FIRST, START, N,
    G: tl.constexpr, R: tl.constexpr, P: tl.constexpr, EACH: tl.constexpr, SPLIT: tl.constexpr,
    WINDOW: tl.constexpr, SEGMENTS: tl.constexpr, BRANCHES: tl.constexpr, BRANCH: tl.constexpr,
    ADD: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, PREC: tl.constexpr,
):  # fmt: skip
    """The probabilities again, for the gradient of one tile of queries of one head.

    DO is the gradient of the gated sum of branches, of which this is number BRANCH. An only one is
    the sum itself, RESULT, without a gate, and its DOTS are written here.
    """
    tiles = tl.cdiv(N, BM)
    tile, head = place_of(tiles)
    n = (tiles - 1 - tile) * BM + tl.arange(0, BM)
    j = head // R
    r = head % R
    b = (FIRST + j) // G
    g = (FIRST + j) % G
    t = START + n
    c = tl.arange(0, BK)
    w = tl.arange(0, BV)
    at = ((b * T + t) * G + g) * R + r
    q_mask = (n < N)[:, None] & (c < DK)[None, :]
    o_mask = (n < N)[:, None] & (w < DV)[None, :]
    q = tl.load(Q + at[:, None] * DK + c[None, :], mask=q_mask, other=0.0)
    do = tl.load(DO + at[:, None] * DV + w[None, :], mask=o_mask, other=0.0)
    lse = tl.load(LSE + at, mask=n < N, other=float("inf"))
    if BRANCHES > 1:
        dots = tl.load(DOTS + at * BRANCHES + BRANCH, mask=n < N, other=0.0)
        gate = tl.load(GATES + at * BRANCHES + BRANCH, mask=n < N, other=0.0).to(tl.float32)
    else:
        o = tl.load(RESULT + at[:, None] * DV + w[None, :], mask=o_mask, other=0.0)
        dots = tl.sum(o.to(tl.float32) * do.to(tl.float32), 1)
        tl.store(DOTS + at, dots, mask=n < N)
    low, high = span_of(LOW, HIGH, b, t, n < N, window, T, M, WINDOW)
    if SEGMENTS:
        asking = tl.load(ASKING + b * T + t, mask=n < N, other=-1)
    dq = tl.zeros([BM, BK], tl.float32)
    for start in range(tl.min(low, 0) // BN * BN, tl.max(high, 0), BN):
        m = start + tl.arange(0, BN)
        key = (b * M + m) * G + g
        k_mask = (m < M)[:, None] & (c < DK)[None, :]
        k = tl.load(K + key[:, None] * DK + c[None, :], mask=k_mask, other=0.0)
        v_mask = (m < M)[:, None] & (w < DV)[None, :]
        v = tl.load(V + key[:, None] * DV + w[None, :], mask=v_mask, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision=PREC)
        if SPLIT:
            rest = tl.load(REST + key[:, None] * DK + c[None, :], mask=k_mask, other=0.0)
            s = tl.dot(q, tl.trans(rest), acc=s, input_precision=PREC)
        seen = (m[None, :] >= low[:, None]) & (m[None, :] < high[:, None])
        if SEGMENTS:
            asked = tl.load(ASKED + b * M + m, mask=m < M, other=-1)
            seen &= (asked[None, :] == asking[:, None]) & (asking >= 0)[:, None]
        p = tl.where(seen, tl.exp2(s * scale - lse[:, None]), 0.0)
        dp = tl.dot(do, tl.trans(v), input_precision=PREC)
        if BRANCHES > 1:
            p *= gate[:, None]
        ds = p * (dp - dots[:, None])
        dq = tl.dot(ds.to(k.dtype), k, acc=dq, input_precision=PREC)
    dq = dq * factor
    if P > 0:
        taken = tl.load(TAKEN + j * N + n, mask=n < N, other=0) * EACH
        for i in range(0, P):
            part = ((j * N + n) * P + i) * R + r
            there = (i < taken)[:, None] & (c < DK)[None, :]
            more = tl.load(PARTS + part[:, None] * DK + c[None, :], mask=there, other=0.0)
            dq += more.to(tl.float32)
    out = DQ + at[:, None] * DK + c[None, :]
    if ADD:
        dq += tl.load(out, mask=q_mask, other=0.0)
    tl.store(out, dq.to(DQ.dtype.element_ty), mask=q_mask)


@triton.jit
@no_type_check
def span_key_gradient_kernel(
    Q, K, REST, V, LOW, HIGH, ASKING, ASKED, READERS, DO, LSE, DOTS, GATES, DK_OUT, DV_OUT,
    scale, window, factor, T, M, B, TILES,
    G: tl.constexpr, R: tl.constexpr, SPLIT: tl.constexpr, WINDOW: tl.constexpr,
    SEGMENTS: tl.constexpr, BRANCHES: tl.constexpr, BRANCH: tl.constexpr, ADD: tl.constexpr,
    DK: tl.constexpr, DV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, PREC: tl.constexpr,
):  # fmt: skip
    """The gradients of one tile of keys and values of one key head.

    Axis 1 of the grid shares the readers of a tile out over as many sums, which are added outside.
    Only one program touches a place, so sums have a fixed order.
    """
    tile, head = place_of(TILES)
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
    if SEGMENTS:
        asked = tl.load(ASKED + b * M + m, mask=m < M, other=-1)
    begin, end = readers_of(READERS, b, tile, window, T, M, B, TILES, WINDOW, BN)
    tiles = tl.cdiv(tl.maximum(end - begin, 0), BM)
    share = tl.cdiv(tiles, tl.num_programs(1))
    first = tl.minimum(tl.program_id(1) * share, tiles)
    stop = tl.minimum(first + share, tiles)
    for r in range(0, R):
        for i in range(first, stop):
            t = begin + i * BM + tl.arange(0, BM)
            at = ((b * T + t) * G + g) * R + r
            q_mask = (t < end)[:, None] & (c < DK)[None, :]
            o_mask = (t < end)[:, None] & (w < DV)[None, :]
            q = tl.load(Q + at[:, None] * DK + c[None, :], mask=q_mask, other=0.0)
            do = tl.load(DO + at[:, None] * DV + w[None, :], mask=o_mask, other=0.0)
            lse = tl.load(LSE + at, mask=t < end, other=float("inf"))
            dots = tl.load(DOTS + at * BRANCHES + BRANCH, mask=t < end, other=0.0)
            low, high = span_of(LOW, HIGH, b, t, t < end, window, T, M, WINDOW)
            s = tl.dot(k, tl.trans(q), input_precision=PREC)
            if SPLIT:
                rest = tl.load(REST + key[:, None] * DK + c[None, :], mask=k_mask, other=0.0)
                s = tl.dot(rest, tl.trans(q), acc=s, input_precision=PREC)
            seen = (m[:, None] >= low[None, :]) & (m[:, None] < high[None, :])
            if SEGMENTS:
                asking = tl.load(ASKING + b * T + t, mask=t < end, other=-1)
                seen &= (asked[:, None] == asking[None, :]) & (asking >= 0)[None, :]
            p = tl.where(seen, tl.exp2(s * scale - lse[None, :]), 0.0)
            if BRANCHES > 1:
                gate = tl.load(GATES + at * BRANCHES + BRANCH, mask=t < end, other=0.0)
                p *= gate.to(tl.float32)[None, :]
            dv = tl.dot(p.to(do.dtype), do, acc=dv, input_precision=PREC)
            dp = tl.dot(v, tl.trans(do), input_precision=PREC)
            ds = p * (dp - dots[None, :])
            dk = tl.dot(ds.to(q.dtype), q, acc=dk, input_precision=PREC)
    out = key + tl.program_id(1).to(tl.int64) * B * M * G
    dk_at = DK_OUT + out[:, None] * DK + c[None, :]
    dv_at = DV_OUT + out[:, None] * DV + w[None, :]
    dk = dk * factor
    if ADD:
        dk += tl.load(dk_at, mask=k_mask, other=0.0)
        dv += tl.load(dv_at, mask=v_mask, other=0.0)
    tl.store(dk_at, dk.to(DK_OUT.dtype.element_ty), mask=k_mask)
    tl.store(dv_at, dv.to(DV_OUT.dtype.element_ty), mask=v_mask)
