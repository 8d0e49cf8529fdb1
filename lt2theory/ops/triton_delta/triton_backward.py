# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""The Triton kernel of the delta rule's gradients; see `lt2theory.ops.triton_delta.op`.

Importing this module imports Triton.
"""

from typing import no_type_check

import triton
import triton.language as tl

from lt2theory.ops.triton_delta.triton_chunk import (
    decays_of,
    load_gates,
    load_rows,
    store_rows,
    whole_dot,
)


@triton.jit(do_not_specialize=["T", "F", "CHUNKS", "scale", "ended"])
@no_type_check
def backward_kernel(
    Q, K, V, DECAY, BETA, WRITE, STATES, INVERSES, D_OUT, D_END,
    DQ, D_K, D_V, D_DECAY, D_BETA, D_WRITE, D_START,
    T, F, CHUNKS, scale, ended,
    H: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    BK: tl.constexpr, BV: tl.constexpr, LOG: tl.constexpr,
    DECAYS: tl.constexpr, ERASES: tl.constexpr, WRITES: tl.constexpr,
    PREC: tl.constexpr,
):  # fmt: skip
    """One program a sequence and head, and tile of values; it walks the chunks backwards.

    What sums over values (all gradients but those of values and of the state) is written a tile
    at a time, one tile behind the other, and added up outside. PREC is the precision of the
    products that neither reach the gradient of an earlier state nor cancel in that of beta.
    """
    C: tl.constexpr = 1 << LOG
    stream = tl.program_id(0).to(tl.int64)
    tile = tl.program_id(1).to(tl.int64)
    streams = tl.num_programs(0).to(tl.int64)
    batch = stream // H
    head = stream % H
    steps = T * F
    i = tl.arange(0, C)
    c = tl.arange(0, BK)
    e = tl.program_id(1) * BV + tl.arange(0, BV)
    of_state = c[:, None] * DV + e[None, :]
    in_state = (c < DK)[:, None] & (e < DV)[None, :]
    below = i[:, None] > i[None, :]
    causal = i[:, None] >= i[None, :]
    ds = tl.load(D_END + stream * DK * DV + of_state, mask=in_state & (ended != 0), other=0.0).to(
        tl.float32
    )
    n = CHUNKS - 1
    while n >= 0:
        step = n * C + i
        real = step < steps
        row = (batch * steps + n * C) * H + head
        reads = real & (step % F == F - 1)
        token = (batch * T + n * C // F) * H + head
        later = step // F - n * C // F
        place = stream * CHUNKS + n
        part = tile * streams * steps + row
        raw, beta, write = load_gates(
            DECAY + row, BETA + row, WRITE + row, i * H, real, DECAYS, ERASES, WRITES, C
        )
        between, start, end, total, kept = decays_of(raw, C)
        erase = beta * start
        # What the steps write, u, and the gradient of what it was solved from.
        k = load_rows(K + row * DK, i * (H * DK), real, c, DK)
        q = load_rows(Q + token * DK, later * (H * DK), reads, c, DK)
        do = scale * load_rows(D_OUT + token * DV, later * (H * DV), reads, e, DV)
        v = load_rows(V + row * DV, i * (H * DV), real, e, DV)
        query_gram = tl.dot(q, tl.trans(k), input_precision=PREC) * between
        pushed = end[:, None] * whole_dot(k, ds)
        dr = tl.dot(tl.trans(query_gram), do, input_precision=PREC) + pushed
        u = write[:, None] * v
        if ERASES:
            state = tl.load(STATES + place * DK * DV + of_state, mask=in_state, other=0.0)
            held = whole_dot(k, state)
            inverse = tl.load(INVERSES + place * C * C + i[:, None] * C + i[None, :])
            u = whole_dot(inverse, u - erase[:, None] * held)
            dr = whole_dot(tl.trans(inverse), dr)
            erased = tl.sum(dr * held, 1)
        since = tl.sum(u * pushed, 1)
        d_write = tl.sum(dr * v, 1)
        if WRITES:
            tl.store(D_WRITE + part + i * H, d_write.to(D_WRITE.dtype.element_ty), mask=real)
        store_rows(D_V + row * DV, write[:, None] * dr, i * (H * DV), real, e, DV)
        # Inputs are loaded again rather than kept: registers are what limits this kernel.
        q = load_rows(Q + token * DK, later * (H * DK), reads, c, DK)
        k = load_rows(K + row * DK, i * (H * DK), real, c, DK)
        state = tl.load(STATES + place * DK * DV + of_state, mask=in_state, other=0.0)
        do = scale * load_rows(D_OUT + token * DV, later * (H * DV), reads, e, DV)
        pairs = tl.where(causal, tl.dot(do, tl.trans(u), input_precision=PREC), 0.0)
        dp = pairs * between
        pairs = pairs * query_gram
        read = start[:, None] * tl.dot(do, tl.trans(state), input_precision=PREC)
        until = tl.sum(q * read, 1)
        dq = read + tl.dot(dp, k, input_precision=PREC)
        store_rows(DQ + (tile * streams * T + token) * DK, dq, later * (H * DK), reads, c, DK)
        dk = tl.dot(tl.trans(dp), q, input_precision=PREC)
        entering = tl.dot(tl.trans(start[:, None] * q), do, input_precision=PREC)
        dk += end[:, None] * tl.dot(u, tl.trans(ds), input_precision=PREC)
        if ERASES:
            k = load_rows(K + row * DK, i * (H * DK), real, c, DK)
            gram = tl.dot(k, tl.trans(k), input_precision=PREC) * between
            down = tl.where(below, -whole_dot(dr, tl.trans(u)), 0.0)
            d_beta = tl.sum(down * gram, 1)
            down = beta[:, None] * down
            pairs += down * gram
            until -= erase * erased
            dh = down * between
            dk += tl.dot(dh + tl.trans(dh), k, input_precision=PREC)
            state = tl.load(STATES + place * DK * DV + of_state, mask=in_state, other=0.0)
            dk -= erase[:, None] * tl.dot(dr, tl.trans(state), input_precision=PREC)
            entering -= whole_dot(tl.trans(erase[:, None] * k), dr)
            d_beta -= start * erased
            if not WRITES:
                d_beta += d_write
            tl.store(D_BETA + part + i * H, d_beta.to(D_BETA.dtype.element_ty), mask=real)
        store_rows(D_K + part * DK, dk, i * (H * DK), real, c, DK)
        if DECAYS:
            # What decays up to step i, from step j on, and through the whole chunk.
            until += tl.sum(pairs, 1) - tl.sum(pairs, 0)
            state = tl.load(STATES + place * DK * DV + of_state, mask=in_state, other=0.0)
            through = total * tl.sum(tl.sum(ds * state, 1), 0)
            d_decay = tl.cumsum(until, 0, reverse=True) + tl.cumsum(since, 0) - since + through
            d_decay = tl.where(kept, d_decay, 0.0)
            tl.store(D_DECAY + part + i * H, d_decay.to(D_DECAY.dtype.element_ty), mask=real)
        ds = total * ds + entering
        n -= 1
    tl.store(D_START + stream * DK * DV + of_state, ds, mask=in_state)
