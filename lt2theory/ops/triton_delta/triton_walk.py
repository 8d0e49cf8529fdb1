# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""The Triton kernel that takes a state through prepared chunks of a delta rule.

See `lt2theory.ops.triton_delta.ahead`. Importing this module imports Triton. Axes: c steps of a
chunk, k and v widths.
"""

from typing import no_type_check

import triton
import triton.language as tl

from lt2theory.ops.interpreting import whole_range
from lt2theory.ops.triton_delta.triton_parts import add_product, load_parts
from lt2theory.ops.workload import is_interpreting

if is_interpreting():
    range = whole_range


@triton.jit(do_not_specialize=["T", "F", "FIRST", "COUNT", "started"])
@no_type_check
def walk_kernel(
    V, KEYS, QUERIES, PAIRS, INVERSES, GATES, START, OUT, END,
    T, F, FIRST, COUNT, started,
    H: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, TILES: tl.constexpr,
    B1: tl.constexpr, B2: tl.constexpr, BV: tl.constexpr, LOG: tl.constexpr,
    STATE_PARTS: tl.constexpr, KEY_PARTS: tl.constexpr, READ_PARTS: tl.constexpr,
    ERASES: tl.constexpr,
):  # fmt: skip
    """One program a sequence and head, and tile of values; it walks the chunks with the state.

    Everything is transposed, values first: the left operand of every product then comes from
    registers, and the right one, which no product before it delays, from memory.
    """
    C: tl.constexpr = 1 << LOG
    WIDTH: tl.constexpr = B1 + B2
    stream = tl.program_id(0).to(tl.int64) // TILES
    tile = tl.program_id(0) % TILES
    batch = stream // H
    head = stream % H
    steps = T * F
    i = tl.arange(0, C)
    c = tl.arange(0, B1)
    e = tile * BV + tl.arange(0, BV)
    of_keys = i[:, None] * WIDTH + c[None, :]
    square = i[:, None] * C + i[None, :]
    state_at = stream * (DK * DV) + e[:, None] + c[None, :] * DV
    in_state = (e < DV)[:, None] & (c < DK)[None, :]
    s = tl.load(START + state_at, mask=in_state & (started != 0), other=0.0).to(tl.float32)
    if B2 > 0:
        c2 = B1 + tl.arange(0, B2)
        of_keys2 = i[:, None] * WIDTH + c2[None, :]
        state_at2 = stream * (DK * DV) + e[:, None] + c2[None, :] * DV
        in_state2 = (e < DV)[:, None] & (c2 < DK)[None, :]
        s2 = tl.load(START + state_at2, mask=in_state2 & (started != 0), other=0.0).to(tl.float32)
    for n in range(0, COUNT):
        place = stream * COUNT + n
        chunk = FIRST + n
        step = chunk * C + i
        real = step < steps
        row = (batch * steps + chunk * C) * H + head
        keys = KEYS + place * (KEY_PARTS * C * WIDTH)
        queries = QUERIES + place * (READ_PARTS * C * WIDTH)
        gates = GATES + place * (5 * C) + i
        ka, kb, kc = load_parts(keys, of_keys, C * WIDTH, KEY_PARTS)
        qa, qb, qc = load_parts(queries, of_keys, C * WIDTH, READ_PARTS)
        pa, pb, pc = load_parts(PAIRS + place * (READ_PARTS * C * C), square, C * C, READ_PARTS)
        in_v = (e < DV)[:, None] & real[None, :]
        v_at = row * DV + e[:, None] + i[None, :] * (H * DV)
        v = tl.load(V + v_at, mask=in_v, other=0.0).to(tl.float32)
        u = v * tl.load(gates + C)[None, :]
        o = tl.zeros([BV, C], tl.float32)
        o = add_product(
            o, s, tl.trans(qa), tl.trans(qb), tl.trans(qc), KEYS, READ_PARTS, READ_PARTS
        )
        if ERASES:
            held = tl.zeros([BV, C], tl.float32)
            held = add_product(
                held, s, tl.trans(ka), tl.trans(kb), tl.trans(kc), KEYS, STATE_PARTS, KEY_PARTS
            )
        if B2 > 0:
            kd, ke, kf = load_parts(keys, of_keys2, C * WIDTH, KEY_PARTS)
            qd, qe, qf = load_parts(queries, of_keys2, C * WIDTH, READ_PARTS)
            o = add_product(
                o, s2, tl.trans(qd), tl.trans(qe), tl.trans(qf), KEYS, READ_PARTS, READ_PARTS
            )
            if ERASES:
                held = add_product(
                    held, s2, tl.trans(kd), tl.trans(ke), tl.trans(kf), KEYS, STATE_PARTS, KEY_PARTS
                )
        if ERASES:
            inverses = INVERSES + place * (STATE_PARTS * C * C)
            xa, xb, xc = load_parts(inverses, square, C * C, STATE_PARTS)
            rest = u - held * tl.load(gates)[None, :]
            u = tl.zeros([BV, C], tl.float32)
            u = add_product(
                u, rest, tl.trans(xa), tl.trans(xb), tl.trans(xc), KEYS, STATE_PARTS, STATE_PARTS
            )
        o = o * tl.load(gates + 3 * C)[None, :]
        o = add_product(
            o, u, tl.trans(pa), tl.trans(pb), tl.trans(pc), KEYS, READ_PARTS, READ_PARTS
        )
        total = tl.load(GATES + place * (5 * C) + 4 * C)
        u = u * tl.load(gates + 2 * C)[None, :]
        s = add_product(s * total, u, ka, kb, kc, KEYS, STATE_PARTS, KEY_PARTS)
        if B2 > 0:
            s2 = add_product(s2 * total, u, kd, ke, kf, KEYS, STATE_PARTS, KEY_PARTS)
        token = (batch * T + chunk * C // F) * H + head
        out_at = token * DV + e[:, None] + (step // F - chunk * C // F)[None, :] * (H * DV)
        reads = real & (step % F == F - 1)
        tl.store(OUT + out_at, o.to(OUT.dtype.element_ty), mask=(e < DV)[:, None] & reads[None, :])
    tl.store(END + state_at, s, mask=in_state)
    if B2 > 0:
        tl.store(END + state_at2, s2, mask=in_state2)
