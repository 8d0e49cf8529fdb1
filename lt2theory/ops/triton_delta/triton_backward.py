# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""The Triton kernel of the delta rule's gradients; see `lt2theory.ops.triton_delta.op`.

Importing this module imports Triton.
"""

from typing import no_type_check

import triton
import triton.language as tl

from lt2theory.ops.triton_delta.triton_chunk import decays_of, load_gates, load_rows, store_rows


@triton.jit(do_not_specialize=["T", "F", "CHUNKS", "scale", "ended"])
@no_type_check
def backward_kernel(
    Q, K, V, DECAY, BETA, WRITE, STATES, INVERSES, D_OUT, D_END,
    DQ, D_K, D_V, D_DECAY, D_BETA, D_WRITE, D_START,
    T, F, CHUNKS, scale, ended,
    H: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    BK: tl.constexpr, BV: tl.constexpr, LOG: tl.constexpr,
    DECAYS: tl.constexpr, ERASES: tl.constexpr, WRITES: tl.constexpr, PREC: tl.constexpr,
):  # fmt: skip
    """One program a sequence and head, and tile of values; it walks the chunks backwards.

    What sums over values (all gradients but those of values and of the state) is written a tile
    at a time, one tile behind the other, and added up outside.
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
    ds = tl.load(
        D_END + stream * DK * DV + of_state, mask=in_state & (ended != 0), other=0.0
    ).to(tl.float32)
    n = CHUNKS - 1
    while n >= 0:
        step = n * C + i
        real = step < steps
        row = (batch * steps + step) * H + head
        raw, beta, write = load_gates(DECAY, BETA, WRITE, row, real, DECAYS, ERASES, WRITES, C)
        k = load_rows(K, row * DK, real, c, DK)
        v = load_rows(V, row * DV, real, e, DV)
        reads = real & (step % F == F - 1)
        token = (batch * T + step // F) * H + head
        q = load_rows(Q, token * DK, reads, c, DK)
        do = scale * load_rows(D_OUT, token * DV, reads, e, DV)
        place = stream * CHUNKS + n
        state = tl.load(STATES + place * DK * DV + of_state, mask=in_state, other=0.0)
        between, start, end, total, kept = decays_of(raw, C)
        query_gram = tl.dot(q, tl.trans(k), input_precision=PREC) * between
        pushed = end[:, None] * tl.dot(k, ds, input_precision=PREC)
        # u is read inside the chunk and written into the state behind it.
        du = tl.dot(tl.trans(query_gram), do, input_precision=PREC) + pushed
        if ERASES:
            inverse = tl.load(INVERSES + place * C * C + i[:, None] * C + i[None, :])
            held = tl.dot(k, state, input_precision=PREC)
            erase = beta * start
            u = tl.dot(inverse, write[:, None] * v - erase[:, None] * held, input_precision=PREC)
            dr = tl.dot(tl.trans(inverse), du, input_precision=PREC)
        else:
            u = write[:, None] * v
            dr = du
        store_rows(D_V, write[:, None] * dr, row * DV, real, e, DV)
        d_write = tl.sum(dr * v, 1)
        # Queries: through the state and through the writes of the chunk.
        d_query_gram = tl.where(causal, tl.dot(do, tl.trans(u), input_precision=PREC), 0.0)
        dp = d_query_gram * between
        read = start[:, None] * tl.dot(do, tl.trans(state), input_precision=PREC)
        dq = read + tl.dot(dp, k, input_precision=PREC)
        store_rows(DQ, dq, (tile * streams * T + token) * DK, reads, c, DK)
        # Keys: as what is read, as what writes, and as what erases.
        dk = tl.dot(tl.trans(dp), q, input_precision=PREC)
        dk += end[:, None] * tl.dot(u, tl.trans(ds), input_precision=PREC)
        pairs = d_query_gram * query_gram
        until = tl.sum(q * read, 1)
        part = tile * streams * steps + row
        if ERASES:
            gram = tl.dot(k, tl.trans(k), input_precision=PREC) * between
            d_erase_gram = tl.dot(dr, tl.trans(u), input_precision=PREC)
            d_erase_gram = tl.where(below, -d_erase_gram, 0.0)
            dh = beta[:, None] * d_erase_gram * between
            dk += tl.dot(dh + tl.trans(dh), k, input_precision=PREC)
            dk -= erase[:, None] * tl.dot(dr, tl.trans(state), input_precision=PREC)
            pairs += beta[:, None] * d_erase_gram * gram
            erased = tl.sum(dr * held, 1)
            until -= erase * erased
            d_beta = tl.sum(d_erase_gram * gram, 1) - start * erased
            if not WRITES:
                d_beta += d_write
            tl.store(D_BETA + part, d_beta.to(D_BETA.dtype.element_ty), mask=real)
        store_rows(D_K, dk, part * DK, real, c, DK)
        if WRITES:
            tl.store(D_WRITE + part, d_write.to(D_WRITE.dtype.element_ty), mask=real)
        if DECAYS:
            # What decays up to step i, from step j on, and through the whole chunk.
            until += tl.sum(pairs, 1) - tl.sum(pairs, 0)
            since = tl.sum(u * pushed, 1)
            through = total * tl.sum(tl.sum(ds * state, 1), 0)
            d_decay = tl.cumsum(until, 0, reverse=True) + tl.cumsum(since, 0) - since + through
            d_decay = tl.where(kept, d_decay, 0.0)
            tl.store(D_DECAY + part, d_decay.to(D_DECAY.dtype.element_ty), mask=real)
        entering = tl.dot(tl.trans(start[:, None] * q), do, input_precision=PREC)
        if ERASES:
            entering -= tl.dot(tl.trans(erase[:, None] * k), dr, input_precision=PREC)
        ds = total * ds + entering
        n -= 1
    tl.store(D_START + stream * DK * DV + of_state, ds, mask=in_state)
