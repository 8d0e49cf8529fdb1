# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Parts of the persistent kernel: its barrier over the grid, and its step of the delta rule.

A grid barrier is one counter in memory. Program 0 adds what lets the sum of all additions of one
round be 2^31, so the top bit turns when the last program has arrived, and nothing is ever reset.
"""

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def arrive(COUNTER, G: tl.constexpr, SYNC: tl.constexpr):
    """Say that all stores of this program so far are done; the one thread's release covers all."""
    if SYNC:
        tl.inline_asm_elementwise(
            """{
            .reg .pred other;
            .reg .b32 t;
            mov.u32 t, %tid.x;
            setp.ne.u32 other, t, 0;
            bar.sync 0;
            @!other red.release.gpu.global.add.u32 [$1], $2;
            mov.u32 $0, 0;
            }""",
            "=r,l,r",
            [COUNTER, tl.where(tl.program_id(0) == 0, -(2**31) + 1 - G, 1)],
            dtype=tl.int32, is_pure=False, pack=1,
        )  # fmt: skip


@triton.jit
@no_type_check
def wait(COUNTER, phase, SYNC: tl.constexpr):
    """Wait until all programs have arrived; returns the top bit of the counter."""
    # What they stored can be loaded then, also through L1: the acquiring load empties that.
    if SYNC:
        tl.inline_asm_elementwise(
            """{
            .reg .pred other, early;
            .reg .b32 t, seen;
            mov.u32 t, %tid.x;
            setp.ne.u32 other, t, 0;
            @other bra ready;
            again:
            ld.acquire.gpu.global.u32 seen, [$1];
            xor.b32 seen, seen, $2;
            setp.ge.s32 early, seen, 0;
            @early bra again;
            ready:
            bar.sync 0;
            mov.u32 $0, 0;
            }""",
            "=r,l,r", [COUNTER, phase], dtype=tl.int32, is_pure=False, pack=1,
        )  # fmt: skip
    return phase ^ -(2**31)


@triton.jit
@no_type_check
def fetch_to_l2(place, size, SYNC: tl.constexpr):
    """Ask for bytes to be moved to the L2 cache: `size` at `place`, both multiples of 16."""
    if SYNC:
        tl.inline_asm_elementwise(
            """{
            .reg .pred asks;
            .reg .b32 t;
            mov.u32 t, %tid.x;
            setp.eq.u32 asks, t, 0;
            setp.gt.and.s32 asks, $2, 0, asks;
            @asks cp.async.bulk.prefetch.L2.global [$1], $2;
            mov.u32 $0, 0;
            }""",
            "=r,l,r", [place, size], dtype=tl.int32, is_pure=False, pack=1,
        )  # fmt: skip


@triton.jit
@no_type_check
def fetch_share(tensor, SIZE: tl.constexpr, G: tl.constexpr, SYNC: tl.constexpr):
    """Ask for this program's share of a contiguous tensor of SIZE bytes to be moved to L2."""
    SHARE: tl.constexpr = ((SIZE + G - 1) // G + 127) // 128 * 128
    if SIZE % 16 == 0:
        start = tl.program_id(0) * SHARE
        place = tensor.to(tl.pointer_type(tl.uint8)) + start
        fetch_to_l2(place, tl.minimum(SHARE, SIZE - start), SYNC)


@triton.jit
@no_type_check
def _past(HISTORY, TAPS, at, mask, row, channels, CONV: tl.constexpr, ROWS: tl.constexpr):
    """The old inputs of some channels `[ROWS, c]`, their taps, and the newest input's tap `[c]`."""
    j = tl.arange(0, ROWS)[:, None]
    real = (j < CONV - 1) & mask[None, :]
    old = tl.load(HISTORY + (row * (CONV - 1) + j) * channels + at[None, :], mask=real, other=0.0)
    taps = tl.load(TAPS + j * channels + at[None, :], mask=real, other=0.0)
    newest = tl.load(TAPS + (CONV - 1) * channels + at, mask=mask, other=0.0)
    return old, taps, newest.to(tl.float32)


@triton.jit
@no_type_check
def _move_on(HISTORY, old, x, at, mask, row, channels, CONV: tl.constexpr, ROWS: tl.constexpr):
    """Shift the history of some channels by one token."""
    j = tl.arange(0, ROWS)[:, None]
    places = HISTORY + (row * (CONV - 1) + j - 1) * channels + at[None, :]
    tl.store(places, old, mask=(j > 0) & (j < CONV - 1) & mask[None, :])
    newest = HISTORY + (row * (CONV - 1) + CONV - 2) * channels + at
    tl.store(newest, x.to(HISTORY.dtype.element_ty), mask=mask)


@triton.jit
@no_type_check
def _silu(x):
    return x * tl.sigmoid(x)


@triton.jit
@no_type_check
def delta_step_between(
    COUNTER, phase, P, HISTORY, TAPS, STATE, RATE, BIAS, NORM, READ,
    rows, scale, eps, beta_range, stride, read_stride,
    H: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
    ROUNDS: tl.constexpr, CONV: tl.constexpr, ROWS: tl.constexpr, DECAY: tl.constexpr,
    GATE: tl.constexpr, G: tl.constexpr, SYNC: tl.constexpr,
):  # fmt: skip
    """Wait for the projections, step this program's pairs of row and head, arrive; as `wait`."""
    # State, history and taps of the first pair are asked for before the wait, and what no other
    # program waits for is stored after the arrival. The state is `[b h k v]`: sums over keys are
    # taken in a thread, and over few warps.
    channels: tl.constexpr = H * (2 * DK + DV)
    c = tl.arange(0, BK)
    e = tl.arange(0, BV)
    for turn in tl.static_range(ROUNDS):
        pair = tl.program_id(0) + turn * G
        mine = pair < rows * H
        h = pair % H
        row = (pair // H).to(tl.int64)
        key, value = mine & (c < DK), mine & (e < DV)
        q_at, k_at, v_at = h * DK + c, (H + h) * DK + c, 2 * H * DK + h * DV + e
        at = STATE + pair.to(tl.int64) * (DK * DV) + c[:, None] * DV + e[None, :]
        there = key[:, None] & value[None, :]
        s = tl.load(at, mask=there, other=0.0)
        if CONV > 0:
            # All loads come before the first sum, whose barriers the compiler moves no load across.
            q_old, q_taps, q_tap = _past(HISTORY, TAPS, q_at, key, row, channels, CONV, ROWS)
            k_old, k_taps, k_tap = _past(HISTORY, TAPS, k_at, key, row, channels, CONV, ROWS)
            v_old, v_taps, v_tap = _past(HISTORY, TAPS, v_at, value, row, channels, CONV, ROWS)
        gain = tl.load(NORM + e, mask=value, other=0.0).to(tl.float32)
        if CONV > 0:
            q_past = tl.sum(q_old.to(tl.float32) * q_taps.to(tl.float32), 0)
            k_past = tl.sum(k_old.to(tl.float32) * k_taps.to(tl.float32), 0)
            v_past = tl.sum(v_old.to(tl.float32) * v_taps.to(tl.float32), 0)
        if turn == 0:
            phase = wait(COUNTER, phase, SYNC)
        base = P + row * stride
        gates = base + channels + (H * DV if GATE else 0)
        q_in = tl.load(base + q_at, mask=key, other=0.0).to(tl.float32)
        k_in = tl.load(base + k_at, mask=key, other=0.0).to(tl.float32)
        v_in = tl.load(base + v_at, mask=value, other=0.0).to(tl.float32)
        beta = tl.load(gates + h, mask=mine, other=0.0).to(tl.float32)
        if DECAY:
            raw = tl.load(gates + H + h, mask=mine, other=0.0).to(tl.float32)
            raw += tl.load(BIAS + h).to(tl.float32)
            rate = tl.exp(tl.load(RATE + h).to(tl.float32))
        if GATE:
            gate = tl.load(base + channels + h * DV + e, mask=value, other=0.0).to(tl.float32)
            gain *= _silu(gate)
        q, k, v = q_in, k_in, v_in
        if CONV > 0:
            q, k, v = q * q_tap + q_past, k * k_tap + k_past, v * v_tap + v_past
        q, k, v = _silu(q), _silu(k), _silu(v)
        q = q * tl.rsqrt(tl.sum(q * q, 0) + 1e-6) * scale
        k = k * tl.rsqrt(tl.sum(k * k, 0) + 1e-6)
        if DECAY:
            # softplus, without overflow for large inputs
            soft = tl.maximum(raw, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(raw)))
            s *= tl.exp(-rate * soft)
        u = beta_range * tl.sigmoid(beta) * (v - tl.sum(s * k[:, None], 0))
        s += k[:, None] * u[None, :]
        o = tl.sum(s * q[:, None], 0)
        o *= tl.rsqrt(tl.sum(o * o, 0) / DV + eps) * gain
        read = READ + row * read_stride + h * DV + e
        tl.store(read, o.to(READ.dtype.element_ty), mask=value)
        if turn == ROUNDS - 1:
            arrive(COUNTER, G, SYNC)
        tl.store(at, s, mask=there)
        if CONV > 0:
            _move_on(HISTORY, q_old, q_in, q_at, key, row, channels, CONV, ROWS)
            _move_on(HISTORY, k_old, k_in, k_at, key, row, channels, CONV, ROWS)
            _move_on(HISTORY, v_old, v_in, v_at, value, row, channels, CONV, ROWS)
    return phase
