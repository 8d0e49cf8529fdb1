# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""The Triton kernel of the delta rule's values; see `lt2theory.ops.triton_delta.op`.

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
    unit_lower_inverse,
    whole_dot,
)


@triton.jit(do_not_specialize=["T", "F", "CHUNKS", "scale", "started", "keep"])
@no_type_check
def forward_kernel(
    Q, K, V, DECAY, BETA, WRITE, START, OUT, END, STATES, INVERSES,
    T, F, CHUNKS, scale, started, keep,
    H: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    BK: tl.constexpr, BV: tl.constexpr, LOG: tl.constexpr,
    DECAYS: tl.constexpr, ERASES: tl.constexpr, WRITES: tl.constexpr,
    PREC: tl.constexpr,
):  # fmt: skip
    """One program a sequence and head, and tile of values; it walks the chunks with the state.

    PREC is the precision of the products that do not reach the next state.
    """
    C: tl.constexpr = 1 << LOG
    stream = tl.program_id(0).to(tl.int64)
    tile = tl.program_id(1)
    batch = stream // H
    head = stream % H
    steps = T * F
    i = tl.arange(0, C)
    c = tl.arange(0, BK)
    e = tile * BV + tl.arange(0, BV)
    of_state = c[:, None] * DV + e[None, :]
    in_state = (c < DK)[:, None] & (e < DV)[None, :]
    state = tl.load(
        START + stream * DK * DV + of_state, mask=in_state & (started != 0), other=0.0
    ).to(tl.float32)
    n = 0
    while n < CHUNKS:
        step = n * C + i
        real = step < steps
        row = (batch * steps + n * C) * H + head
        raw, beta, write = load_gates(
            DECAY + row, BETA + row, WRITE + row, i * H, real, DECAYS, ERASES, WRITES, C
        )
        k = load_rows(K + row * DK, i * (H * DK), real, c, DK)
        v = load_rows(V + row * DV, i * (H * DV), real, e, DV)
        reads = real & (step % F == F - 1)
        token = (batch * T + n * C // F) * H + head
        later = step // F - n * C // F
        q = load_rows(Q + token * DK, later * (H * DK), reads, c, DK)
        between, start, end, total, _ = decays_of(raw, C)
        place = stream * CHUNKS + n
        kept = in_state & (keep != 0)
        tl.store(STATES + place * DK * DV + of_state, state, mask=kept)
        u = write[:, None] * v
        if ERASES:
            gram = whole_dot(k, tl.trans(k)) * between
            inverse = unit_lower_inverse(
                tl.where(i[:, None] > i[None, :], beta[:, None] * gram, 0.0), LOG
            )
            tl.store(
                INVERSES + place * C * C + i[:, None] * C + i[None, :],
                inverse,
                mask=(i < C)[:, None] & ((keep != 0) & (tile == 0)),
            )
            held = whole_dot(k, state)
            u = whole_dot(inverse, u - (beta * start)[:, None] * held)
        query_gram = tl.dot(q, tl.trans(k), input_precision=PREC) * between
        out = start[:, None] * tl.dot(q, state, input_precision=PREC)
        out += tl.dot(query_gram, u, input_precision=PREC)
        store_rows(OUT + token * DV, scale * out, later * (H * DV), reads, e, DV)
        written = whole_dot(tl.trans(end[:, None] * k), u)
        state = total * state + written
        n += 1
    tl.store(END + stream * DK * DV + of_state, state, mask=in_state)
