# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Triton kernels for attention of all queries that take a block of keys to this block.

Rows of queries are gathered, keys are not, and tiles are dense. What a query reads of one block, or
of a piece of BN keys of it, is a part: a softmax of its own with the logarithm of its sum, joined
with the others and with the query's own block. Scores are in base 2: `scale` has been multiplied by
log2(e). Importing this module imports Triton.

One launch serves N queries from START of rows and key heads FIRST and on (`j` of them).

Axes: b batch, t queries, m keys, g key heads, r query heads of one, c blocks, k and v widths.
"""

from typing import no_type_check

import triton
import triton.language as tl

from lt2theory.ops.interpreting import whole_range
from lt2theory.ops.triton_grid import place_of
from lt2theory.ops.workload import is_interpreting

if is_interpreting():
    range = whole_range


@triton.jit
@no_type_check
def block_forward_kernel(
    Q, K, V, LAST, LISTS, ENDS, TILE_ENDS, JOBS, PARTS, LSE, scale, T, M, C, FIRST, START, N, COUNT,
    G: tl.constexpr, R: tl.constexpr, SLOTS: tl.constexpr, SIZE: tl.constexpr, EACH: tl.constexpr,
    DK: tl.constexpr, DV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, CK: tl.constexpr, CV: tl.constexpr, PREC: tl.constexpr,
):  # fmt: skip
    """One tile of the query heads that take a block (JOBS, of COUNT), and one piece of the block.

    Widths are cut into pieces of CK and CV, so that 96 and 192 need no wider tiles.
    """
    place, piece = place_of(tl.num_programs(0) // EACH)
    job = tl.load(JOBS + place)
    if job < COUNT:
        j = job.to(tl.int64) // C
        b = (FIRST + j) // G
        g = (FIRST + j) % G
        begin = tl.load(ENDS + job - 1, mask=job > 0, other=0)
        end = tl.load(ENDS + job)
        tile = place - tl.load(TILE_ENDS + job - 1, mask=job > 0, other=0)
        row = tile * BM + tl.arange(0, BM)
        inside = row < (end - begin) * R
        entry = tl.load(LISTS + begin + row // R, mask=inside, other=0)
        r = row % R
        q_at = ((b * T + START + entry // SLOTS) * G + g) * R + r
        offset = piece * BN + tl.arange(0, BN)
        m = tl.load(LAST + b * C + job % C) - SIZE + 1 + offset
        real = offset < SIZE
        key = (b * M + m) * G + g
        s = tl.zeros([BM, BN], tl.float32)
        for first in tl.static_range(0, DK, CK):
            c = first + tl.arange(0, CK)
            q_mask = inside[:, None] & (c < DK)[None, :]
            q = tl.load(Q + q_at[:, None] * DK + c[None, :], mask=q_mask, other=0.0)
            k_mask = real[:, None] & (c < DK)[None, :]
            k = tl.load(K + key[:, None] * DK + c[None, :], mask=k_mask, other=0.0)
            s = tl.dot(q, tl.trans(k), acc=s, input_precision=PREC)
        s = tl.where(real[None, :], s * scale, float("-inf"))
        top = tl.max(s, 1)
        p = tl.exp2(s - top[:, None])
        total = tl.sum(p, 1)
        part = ((j * N * SLOTS + entry) * EACH + piece) * R + r
        tl.store(LSE + part, top + tl.log2(total), mask=inside)
        p = (p / total[:, None]).to(V.dtype.element_ty)
        for first in tl.static_range(0, DV, CV):
            w = first + tl.arange(0, CV)
            v_mask = real[:, None] & (w < DV)[None, :]
            v = tl.load(V + key[:, None] * DV + w[None, :], mask=v_mask, other=0.0)
            o = tl.dot(p, v, input_precision=PREC)
            o_mask = inside[:, None] & (w < DV)[None, :]
            out = PARTS + part[:, None] * DV + w[None, :]
            tl.store(out, o.to(PARTS.dtype.element_ty), mask=o_mask)


@triton.jit
@no_type_check
def join_kernel(
    PARTS, PARTS_LSE, TAKEN, OUT, LSE, T, FIRST, START, N,
    G: tl.constexpr, R: tl.constexpr, P: tl.constexpr, EACH: tl.constexpr, DV: tl.constexpr,
    BM: tl.constexpr, BP: tl.constexpr, BATCH: tl.constexpr, CV: tl.constexpr,
):  # fmt: skip
    """The P parts of a tile of queries of one head join what OUT and LSE have of other keys.

    Every thread sums its own elements over the parts, one part after the other: threads wait for
    memory, not for each other. BATCH parts are asked for at once: without the barrier the compiler
    asks for each just before its use. BP parts are unrolled, because a loop that is carried out
    more than once moves every weight through shared memory.
    """
    tile, head = place_of(tl.cdiv(N, BM))
    n = tile * BM + tl.arange(0, BM)
    inside = n < N
    j = head // R
    r = head % R
    row = (((FIRST + j) // G * T + START + n) * G + (FIRST + j) % G) * R + r
    part = (j * N + n) * P * R + r
    taken = tl.load(TAKEN + j * N + n, mask=inside, other=0) * EACH
    own = tl.load(LSE + row, mask=inside, other=float("inf"))
    own = tl.where(own == float("inf"), float("-inf"), own)
    top = own
    for first in range(0, P, BP):
        for i in tl.static_range(BP):
            at = PARTS_LSE + part + (first + i) * R
            top = tl.maximum(top, tl.load(at, mask=first + i < taken, other=float("-inf")))
    top = tl.where(top == float("-inf"), 0.0, top)
    total = tl.exp2(own - top)
    w = tl.arange(0, CV)
    out = OUT + row[:, None] * DV + w[None, :]
    sums = ()
    for cut in tl.static_range(0, DV, CV):
        mask = inside[:, None] & (cut + w < DV)[None, :]
        o = tl.load(out + cut, mask=mask, other=0.0).to(tl.float32)
        sums += (o * total[:, None],)
    for first in range(0, P, BP):
        for begin in tl.static_range(0, BP, BATCH):
            batch = ()
            for i in tl.static_range(BATCH):
                p = first + begin + i
                values = PARTS + (part + p * R)[:, None] * DV + w[None, :]
                for cut in tl.static_range(0, DV, CV):
                    mask = (p < taken)[:, None] & (cut + w < DV)[None, :]
                    batch += (tl.load(values + cut, mask=mask, other=0.0),)
            # Loads stay on their side: values before, weights and so all sums after. Nor does
            # a thread store before all have read.
            tl.debug_barrier()
            for i in tl.static_range(BATCH):
                p = first + begin + i
                lse = tl.load(PARTS_LSE + part + p * R, mask=p < taken, other=float("-inf"))
                weight = tl.exp2(lse - top)
                total += weight
                added = ()
                for k in tl.static_range(len(sums)):
                    x = batch[i * len(sums) + k].to(tl.float32)
                    added += (sums[k] + x * weight[:, None],)
                sums = added
    some = total > 0
    total = tl.where(some, total, 1.0)
    for k in tl.static_range(len(sums)):
        mask = inside[:, None] & (k * CV + w < DV)[None, :]
        o = sums[k] / total[:, None]
        tl.store(out + k * CV, o.to(OUT.dtype.element_ty), mask=mask)
    tl.store(LSE + row, tl.where(some, top + tl.log2(total), float("inf")), mask=inside)


@triton.jit
@no_type_check
def block_gradient_kernel(
    Q, K, V, LAST, LISTS, ENDS, DO, LSE, DOTS, GATES, PARTS, DK_OUT, DV_OUT, scale, factor,
    T, M, C, FIRST, START, N,
    G: tl.constexpr, R: tl.constexpr, SLOTS: tl.constexpr, SIZE: tl.constexpr, EACH: tl.constexpr,
    BRANCH: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, PREC: tl.constexpr,
):  # fmt: skip
    """What a block's takers add to the gradients of a piece of it, and their own gradients by part.

    Only this program touches them, so the sums have a fixed order.
    """
    place, j = place_of(C * EACH)
    b = (FIRST + j) // G
    g = (FIRST + j) % G
    job = j * C + place // EACH
    piece = place % EACH
    begin = tl.load(ENDS + job - 1, mask=job > 0, other=0)
    rows = (tl.load(ENDS + job) - begin) * R
    if rows > 0:
        c = tl.arange(0, BK)
        w = tl.arange(0, BV)
        offset = piece * BN + tl.arange(0, BN)
        m = tl.load(LAST + b * C + place // EACH) - SIZE + 1 + offset
        real = offset < SIZE
        key = (b * M + m) * G + g
        k_mask = real[:, None] & (c < DK)[None, :]
        v_mask = real[:, None] & (w < DV)[None, :]
        k = tl.load(K + key[:, None] * DK + c[None, :], mask=k_mask, other=0.0)
        v = tl.load(V + key[:, None] * DV + w[None, :], mask=v_mask, other=0.0)
        dk = tl.zeros([BN, BK], tl.float32)
        dv = tl.zeros([BN, BV], tl.float32)
        for start in range(0, rows, BM):
            row = start + tl.arange(0, BM)
            inside = row < rows
            entry = tl.load(LISTS + begin + row // R, mask=inside, other=0)
            at = ((b * T + START + entry // SLOTS) * G + g) * R + row % R
            q_mask = inside[:, None] & (c < DK)[None, :]
            o_mask = inside[:, None] & (w < DV)[None, :]
            q = tl.load(Q + at[:, None] * DK + c[None, :], mask=q_mask, other=0.0)
            do = tl.load(DO + at[:, None] * DV + w[None, :], mask=o_mask, other=0.0)
            lse = tl.load(LSE + at, mask=inside, other=float("inf"))
            dots = tl.load(DOTS + at * 3 + BRANCH, mask=inside, other=0.0)
            gate = tl.load(GATES + at * 3 + BRANCH, mask=inside, other=0.0).to(tl.float32)
            s = tl.dot(k, tl.trans(q), input_precision=PREC) * scale
            p = tl.where(real[:, None], tl.exp2(s - lse[None, :]), 0.0) * gate[None, :]
            dv = tl.dot(p.to(do.dtype), do, acc=dv, input_precision=PREC)
            dp = tl.dot(v, tl.trans(do), input_precision=PREC)
            ds = (p * (dp - dots[None, :])).to(q.dtype)
            dk = tl.dot(ds, q, acc=dk, input_precision=PREC)
            dq = tl.dot(tl.trans(ds), k, input_precision=PREC) * factor
            part = ((j * N * SLOTS + entry) * EACH + piece) * R + row % R
            out = PARTS + part[:, None] * DK + c[None, :]
            tl.store(out, dq.to(PARTS.dtype.element_ty), mask=q_mask)
        dk_at = DK_OUT + key[:, None] * DK + c[None, :]
        dv_at = DV_OUT + key[:, None] * DV + w[None, :]
        tl.store(dk_at, tl.load(dk_at, mask=k_mask, other=0.0) + dk * factor, mask=k_mask)
        tl.store(dv_at, tl.load(dv_at, mask=v_mask, other=0.0) + dv, mask=v_mask)
