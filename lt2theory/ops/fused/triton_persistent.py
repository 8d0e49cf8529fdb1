# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""All blocks of a looped delta-rule model as one kernel a decode step.

As many programs as fit on the GPU at once walk through the stages of all blocks: projections, step
of the delta rule, output projection, and a SwiGLU and its projection. Weights lie as tiles in the
order in which they are taken (`PackedTiles`), and one flat loop over tiles reads them: its loads
run several tiles ahead and do not stop at the barriers between the stages, as the weights depend on
nothing. What a program computes does not depend on the others' timing, so results repeat exactly.
"""

from typing import no_type_check

import triton
import triton.language as tl

from lt2theory.ops.fused.triton_persistent_parts import (
    arrive,
    delta_step_between,
    fetch_share,
    fetch_to_l2,
    wait,
)


@triton.jit
@no_type_check
def _place(
    at, N: tl.constexpr, G: tl.constexpr,
    T0: tl.constexpr, T1: tl.constexpr, T2: tl.constexpr,
    C0: tl.constexpr, C1: tl.constexpr, C2: tl.constexpr, C3: tl.constexpr,
):  # fmt: skip
    """What this program takes at a place of its list of tiles, and whether that ends anything."""
    # Every program's list has the same length: one that has no tile left of a stage takes none.
    # A stage has Tn tiles (the last one T1), each of Cn parts along the inputs. The tiles of the
    # SwiGLU are dealt from the middle of the programs on, so that they and the projections weigh
    # on different ones.
    J0: tl.constexpr = (T0 + G - 1) // G
    J1: tl.constexpr = (T1 + G - 1) // G
    J2: tl.constexpr = (T2 + G - 1) // G
    FFN: tl.constexpr = T2 > 0
    E0: tl.constexpr = J0 * C0
    E1: tl.constexpr = E0 + J1 * C1
    E2: tl.constexpr = E1 + J2 * C2
    ALL: tl.constexpr = E2 + (J1 * C3 if FFN else 0)
    B2: tl.constexpr = T0 * C0 + T1 * C1
    B3: tl.constexpr = B2 + T2 * C2
    UNITS: tl.constexpr = B3 + (T1 * C3 if FFN else 0)
    p = tl.program_id(0)
    block = at // ALL
    r = at - block * ALL
    stage = (r >= E0).to(tl.int32) + (r >= E1).to(tl.int32) + (r >= E2).to(tl.int32)
    late, adds = stage >= 2, (stage & 1) == 1
    r -= tl.where(late, tl.where(adds, E2, E1), tl.where(adds, E0, 0))
    turn = tl.where(late, tl.where(adds, r // C3, r // C2), tl.where(adds, r // C1, r // C0))
    parts = tl.where(late, tl.where(adds, C3, C2), tl.where(adds, C1, C0))
    turns = tl.where(adds, J1, tl.where(late, J2, J0))
    tiles = tl.where(adds, T1, tl.where(late, T2, T0))
    before = tl.where(late, tl.where(adds, B3, B2), tl.where(adds, T0 * C0, 0))
    tile = tl.where(stage == 2, (p + G // 2) % G, p) + turn * G
    part = r - turn * parts
    unit = (block % N) * UNITS + before + tile * parts + part
    whole = part == parts - 1
    ends = whole & (turn == turns - 1)
    return block, stage, turn, tile, part, unit.to(tl.int64), tile < tiles, whole, ends


@triton.jit
@no_type_check
def _wanted(
    at, N: tl.constexpr, G: tl.constexpr,
    T0: tl.constexpr, T1: tl.constexpr, T2: tl.constexpr,
    C0: tl.constexpr, C1: tl.constexpr, C3: tl.constexpr,
    D: tl.constexpr, M: tl.constexpr, F: tl.constexpr, BD: tl.constexpr, SLICES: tl.constexpr,
):  # fmt: skip
    """Number of the unit of weights at a place, and how many of its slices hold any (0: none)."""
    _, stage, _, _, part, unit, there, _, _ = _place(at, N, G, T0, T1, T2, C0, C1, C0, C3)
    inputs = tl.where((stage & 1) == 1, tl.where(stage >= 2, F, M), D)
    left = (inputs + BD - 1) // BD - part * SLICES
    return unit, tl.where(there, tl.minimum(left, SLICES), 0)


@triton.jit
@no_type_check
def _read_column(X, tile, rows, width, D: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr):
    """Columns of all rows, in float32."""
    n, m = tile * BN + tl.arange(0, BN), tl.arange(0, BM)
    mask = (n < D)[:, None] & (m < rows)[None, :]
    return tl.load(X + m[None, :] * width + n[:, None], mask=mask, other=0.0).to(tl.float32)


@triton.jit
@no_type_check
def _write_column(X, y, tile, rows, width, D: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr):
    """Columns of all rows, rounded."""
    n, m = tile * BN + tl.arange(0, BN), tl.arange(0, BM)
    mask = (n < D)[:, None] & (m < rows)[None, :]
    tl.store(X + m[None, :] * width + n[:, None], y.to(X.dtype.element_ty), mask=mask)


@triton.jit
@no_type_check
def _note(H, PART, y, tile, rows, width, D: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr):
    """Write columns of the residual stream, and the sums of their squares for the next norm."""
    _write_column(H, y, tile, rows, width, D, BN, BM)
    wide = y.to(H.dtype.element_ty).to(tl.float32)
    squares = PART + tile * BM + tl.arange(0, BM)
    tl.store(squares, tl.sum(wide * wide, 0), mask=tile * BN < D)


@triton.jit
@no_type_check
def _begin(
    H, PART, START, rows, width, T1: tl.constexpr, D: tl.constexpr, BN: tl.constexpr,
    BM: tl.constexpr, LOOP_GATE: tl.constexpr, G: tl.constexpr,
):  # fmt: skip
    """Note the residual stream that comes in, and keep it for the gate of the first loop."""
    for turn in tl.static_range((T1 + G - 1) // G):
        tile = tl.program_id(0) + turn * G
        y = _read_column(H, tile, rows, width, D, BN, BM)
        _note(H, PART, y, tile, rows, width, D, BN, BM)
        if LOOP_GATE:
            _write_column(START, y, tile, rows, D, D, BN, BM)


@triton.jit
@no_type_check
def _swiglu(X, y, tile, rows, width, F: tl.constexpr, BN: tl.constexpr, BM: tl.constexpr):
    """Write `silu(a) * b` of a tile whose upper half is a and whose lower half is b."""
    a, b = tl.split(tl.permute(tl.reshape(y, [2, BN // 2, BM]), (1, 2, 0)))
    _write_column(X, a * tl.sigmoid(a) * b, tile, rows, width, F, BN // 2, BM)


@triton.jit
@no_type_check
def persistent_kernel(
    COUNTER, W, H, READ, HIDDEN, P, PART, START, GATES,
    HISTORY, TAPS, STATE, RATE, BIAS, NORM,
    rows, scale, eps, beta_range,
    N: tl.constexpr, BLOCKS: tl.constexpr, LOOP_GATE: tl.constexpr,
    D: tl.constexpr, PROJ: tl.constexpr, HEADS: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    F: tl.constexpr, CONV: tl.constexpr, DECAY: tl.constexpr, GATE: tl.constexpr,
    BK: tl.constexpr, BV: tl.constexpr, TAP_ROWS: tl.constexpr, ROUNDS: tl.constexpr,
    NORM_PARTS: tl.constexpr, BATCH: tl.constexpr,
    G: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr, SLICES: tl.constexpr,
    STAGES: tl.constexpr, AHEAD: tl.constexpr, SYNC: tl.constexpr, PREC: tl.constexpr,
):  # fmt: skip
    """H goes in and comes out; every BD inputs of a tile of BN outputs are one warp's slice."""
    CHUNK: tl.constexpr = SLICES * BD
    M: tl.constexpr = HEADS * DV
    C0: tl.constexpr = (D + CHUNK - 1) // CHUNK
    C1: tl.constexpr = (M + CHUNK - 1) // CHUNK
    C3: tl.constexpr = (F + CHUNK - 1) // CHUNK if F > 0 else 1
    T0: tl.constexpr = (PROJ + BN - 1) // BN
    T1: tl.constexpr = (D + BN - 1) // BN
    T2: tl.constexpr = (2 * F + BN - 1) // BN
    FFN: tl.constexpr = F > 0
    LIST: tl.constexpr = (
        (T0 + G - 1) // G * C0 + (T1 + G - 1) // G * (C1 + (C3 if FFN else 0))
        + (T2 + G - 1) // G * C0
    )  # fmt: skip
    UNIT: tl.constexpr = BN * CHUNK
    BYTES: tl.constexpr = W.dtype.element_ty.primitive_bitwidth // 8
    LAST: tl.constexpr = 3 if FFN else 1
    PLACES: tl.constexpr = DK * DV * HEADS * BATCH
    CHANNELS: tl.constexpr = HEADS * (2 * DK + DV)
    PAST: tl.constexpr = BATCH * (CONV - 1) * CHANNELS if CONV > 0 else 0
    phase = 0
    if SYNC:
        phase = tl.load(COUNTER, volatile=True) & -(2**31)
    _begin(H, PART, START, rows, C0 * CHUNK, T1, D, BN, BM, LOOP_GATE, G)
    arrive(COUNTER, G, SYNC)
    phase = wait(COUNTER, phase, SYNC)
    m = tl.arange(0, BM)
    s = tl.arange(0, SLICES)
    inside = s[:, None, None] * (BN * BD) + tl.arange(0, BN)[None, :, None] * BD
    inside += tl.arange(0, BD)[None, None, :]
    d = s[:, None] * BD + tl.arange(0, BD)[None, :]
    parts_at = tl.arange(0, NORM_PARTS)[:, None] * BM + m[None, :]
    parts_real = tl.arange(0, NORM_PARTS)[:, None] < T1
    acc = tl.zeros([SLICES, BN, BM], tl.float32)
    squares = tl.load(PART + parts_at, mask=parts_real, other=0.0)
    unit_rms = tl.zeros([BM], tl.float32)
    now = 0
    for at in tl.range(0, BLOCKS * LIST, num_stages=STAGES):
        unit, slices = _wanted(at, N, G, T0, T1, T2, C0, C1, C3, D, M, F, BD, SLICES)
        w = tl.load(W + unit * UNIT + inside, mask=(s < slices)[:, None, None], other=0.0)
        # Counted apart from `at`, so that what the loads are placed by is not kept until now.
        block, stage, turn, tile, part, unit, there, whole, ends = _place(
            now, N, G, T0, T1, T2, C0, C1, C0, C3
        )
        now += 1  # noqa: SIM113
        late, adds = stage >= 2, (stage & 1) == 1
        # Under a condition, so that the compiler does not take these loads ahead of the barriers.
        x = tl.zeros([SLICES, BD, BM], W.dtype.element_ty)
        if there:
            width = tl.where(adds, tl.where(late, C3, C1), C0) * CHUNK
            source = H
            if adds:
                source = READ
                if late:
                    source = HIDDEN
            x = tl.load(source + (part * CHUNK + d[:, :, None]) + m[None, None, :] * width)
        acc = tl.dot(w, x, acc, input_precision=PREC)
        if AHEAD > 0:
            unit, slices = _wanted(now + AHEAD, N, G, T0, T1, T2, C0, C1, C3, D, M, F, BD, SLICES)
            slices = tl.where(now + AHEAD < BLOCKS * LIST, slices, 0)
            fetch_to_l2(W + unit * UNIT, slices * (BN * BD * BYTES), SYNC)
        if (stage == 0) & (turn == 0) & (part == 0):
            fetch_share(STATE + block.to(tl.int64) * PLACES, 4 * PLACES, G, SYNC)
            fetch_share(HISTORY + block.to(tl.int64) * PAST, BYTES * PAST, G, SYNC)
            fetch_share(TAPS + block % N * (CHANNELS * CONV), BYTES * CHANNELS * CONV, G, SYNC)
        if whole:
            y = tl.sum(acc, 0)
            acc = tl.zeros([SLICES, BN, BM], tl.float32)
            if adds:
                if there:
                    y += _read_column(H, tile, rows, C0 * CHUNK, D, BN, BM)
                    if LOOP_GATE and (stage == LAST) & (block % N == N - 1):
                        n = tile * BN + tl.arange(0, BN)
                        g = tl.load(GATES + block // N * D + n, mask=n < D, other=0.0)
                        start = _read_column(START, tile, rows, D, D, BN, BM)
                        y += g.to(tl.float32)[:, None] * start
                        _write_column(START, y, tile, rows, D, D, BN, BM)
                    _note(H, PART, y, tile, rows, C0 * CHUNK, D, BN, BM)
            else:
                if turn == 0:
                    unit_rms = tl.rsqrt(tl.sum(squares, 0) / D + eps)
                y *= unit_rms[None, :]
                if stage == 0:
                    _write_column(P, y, tile, rows, PROJ, PROJ, BN, BM)
                elif FFN:
                    _swiglu(HIDDEN, y, tile, rows, C3 * CHUNK, F, BN, BM)
            if ends:
                arrive(COUNTER, G, SYNC)
                if stage == 0:
                    layer = block % N
                    wide = block.to(tl.int64)
                    phase = delta_step_between(
                        COUNTER, phase, P, HISTORY + wide * PAST,
                        TAPS + layer * (CHANNELS * CONV), STATE + wide * PLACES,
                        RATE + layer * HEADS, BIAS + layer * HEADS, NORM + layer * DV, READ,
                        rows, scale, eps, beta_range, PROJ, C1 * CHUNK,
                        HEADS, DK, DV, BK, BV, ROUNDS, CONV, TAP_ROWS, DECAY, GATE, G, SYNC,
                    )  # fmt: skip
                phase = wait(COUNTER, phase, SYNC)
                if adds:
                    squares = tl.load(PART + parts_at, mask=parts_real, other=0.0)
