# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""One token of a delta-rule mixer, from its projections to its gated, normalised read-out.

Convolution, silu, unit keys and queries, gates, decay, erasure, write, read, norm and output gate
in one kernel; convolution history and state change in place. Both can be loaded before the kernel
that writes the projections has ended.
"""

from typing import no_type_check

import triton
import triton.language as tl
from torch import Tensor

from lt2theory.ops.fused.triton_overlap import let_next_start, overlaps, wait_for_last

_STATE, _VALUES_OF_A_THREAD = 32768, 128
"""Most values of the state that one program takes (half of the registers), and one thread does."""


@triton.jit
@no_type_check
def _before(HISTORY, TAPS, at, mask, channels, row, CONV: tl.constexpr, ROWS: tl.constexpr):
    """Inputs of some channels at the last tokens `[ROWS, c]`, with 0 for this one, and taps."""
    j = tl.arange(0, ROWS)[:, None]
    places = HISTORY + (row * (CONV - 1) + j) * channels + at[None, :]
    inputs = tl.load(places, mask=(j < CONV - 1) & mask[None, :], other=0.0)
    places = TAPS + j * channels + at[None, :]
    return inputs, tl.load(places, mask=(j < CONV) & mask[None, :], other=0.0).to(tl.float32)


@triton.jit
@no_type_check
def _with_newest(inputs, P, at, mask, CONV: tl.constexpr, ROWS: tl.constexpr):
    """Fill in this token's inputs."""
    j = tl.arange(0, ROWS)[:, None]
    newest = tl.load(P + at[None, :] + 0 * j, mask=(j == CONV - 1) & mask[None, :], other=0.0)
    return inputs + newest.to(inputs.dtype)


@triton.jit
@no_type_check
def _convolved(inputs, taps):
    y = tl.sum(inputs.to(tl.float32) * taps, 0)
    return y * tl.sigmoid(y)


@triton.jit
@no_type_check
def _move_on(HISTORY, inputs, at, mask, channels, row, CONV: tl.constexpr, ROWS: tl.constexpr):
    """Shift the history of some channels by one token."""
    j = tl.arange(0, ROWS)[:, None]
    places = HISTORY + (row * (CONV - 1) + j - 1) * channels + at[None, :]
    tl.store(places, inputs, mask=(j > 0) & (j < CONV) & mask[None, :])


@triton.jit
@no_type_check
def _write_out(OUT, o, gain, f, there, eps, DV: tl.constexpr):
    o *= tl.rsqrt(tl.sum(o * o, 0) / DV + eps) * gain
    tl.store(OUT + f, o.to(OUT.dtype.element_ty), mask=there)


@triton.jit
@no_type_check
def _step_kernel(
    P, HISTORY, TAPS, STATE, RATE, BIAS, NORM, RAW, ARRIVED, OUT,
    scale, eps, beta_range, stride,
    H: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
    TILES: tl.constexpr, BALL: tl.constexpr,
    CONV: tl.constexpr, ROWS: tl.constexpr, DECAY: tl.constexpr, GATED: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """One program a row, head and tile of values; projections lie as q, k, v, gate, beta, decay.

    Where a head has several tiles, whichever program comes last normalises what all have read.
    """
    tile = tl.program_id(0) % TILES
    h = (tl.program_id(0) // TILES) % H
    row = (tl.program_id(0) // (TILES * H)).to(tl.int64)
    head = row * H + h
    channels: tl.constexpr = H * (2 * DK + DV)
    c = tl.arange(0, BK)
    e = tile * BV + tl.arange(0, BV)
    f = tl.arange(0, BALL)
    real = c < DK
    some = e < DV
    there = f < DV
    at = STATE + (head * DK + c[:, None]) * DV + e[None, :]
    mask = real[:, None] & some[None, :]
    s = tl.load(at, mask=mask, other=0.0)
    q_at, k_at, v_at = h * DK + c, (H + h) * DK + c, 2 * H * DK + h * DV + e
    q_in, q_taps = _before(HISTORY, TAPS, q_at, real, channels, row, CONV, ROWS)
    k_in, k_taps = _before(HISTORY, TAPS, k_at, real, channels, row, CONV, ROWS)
    v_in, v_taps = _before(HISTORY, TAPS, v_at, some, channels, row, CONV, ROWS)
    gain = tl.load(NORM + f, mask=there, other=0.0).to(tl.float32)
    if DECAY:
        bias = tl.load(BIAS + h).to(tl.float32)
        rate = tl.exp(tl.load(RATE + h).to(tl.float32))
    wait_for_last(PDL)
    let_next_start(PDL)
    # All loads come before the first store, since the compiler would not move them across it.
    P += row * stride
    q_in = _with_newest(q_in, P, q_at, real, CONV, ROWS)
    k_in = _with_newest(k_in, P, k_at, real, CONV, ROWS)
    v_in = _with_newest(v_in, P, v_at, some, CONV, ROWS)
    gates = P + channels + (H * DV if GATED else 0)
    beta = beta_range * tl.sigmoid(tl.load(gates + h).to(tl.float32))
    if DECAY:
        raw = tl.load(gates + H + h).to(tl.float32) + bias
    if GATED:
        g = tl.load(P + channels + h * DV + f, mask=there, other=0.0).to(tl.float32)
        gain *= g * tl.sigmoid(g)
    if DECAY:
        # softplus, without overflow for large inputs
        soft = tl.maximum(raw, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(raw)))
        s *= tl.exp(-rate * soft)
    q = _convolved(q_in, q_taps)
    k = _convolved(k_in, k_taps)
    v = _convolved(v_in, v_taps)
    q = tl.where(real, q * tl.rsqrt(tl.sum(q * q, 0) + 1e-6) * scale, 0.0)
    k = tl.where(real, k * tl.rsqrt(tl.sum(k * k, 0) + 1e-6), 0.0)
    # The new state is s + k u^T, so it reads s^T q + (k q) u: both sums are over the old state.
    u = beta * (v - tl.sum(s * k[:, None], 0))
    o = tl.sum(s * q[:, None], 0) + tl.sum(k * q, 0) * u
    if TILES == 1:
        _write_out(OUT + head * DV, o, gain, f, there, eps, DV)
        last = True
    else:
        tl.store(RAW + head * DV + e, o, mask=some)
        # What the other programs of the head have to see is stored before the arrival, and what
        # they wrote is loaded after it. All have loaded the history of q and k by then.
        tl.debug_barrier()
        last = tl.atomic_add(ARRIVED + head, 1, sem="acq_rel") == TILES - 1
    tl.store(at, s + k[:, None] * u[None, :], mask=mask)
    _move_on(HISTORY, v_in, v_at, some, channels, row, CONV, ROWS)
    if last:
        _move_on(HISTORY, q_in, q_at, real, channels, row, CONV, ROWS)
        _move_on(HISTORY, k_in, k_at, real, channels, row, CONV, ROWS)
        if TILES > 1:
            tl.store(ARRIVED + head, 0)
            whole = tl.load(RAW + head * DV + f, mask=there, other=0.0, cache_modifier=".cg")
            _write_out(OUT + head * DV, whole, gain, f, there, eps, DV)


def delta_step(
    projected: Tensor,
    history: Tensor,
    taps: Tensor,
    state: Tensor,
    norm: Tensor,
    raw: Tensor,
    arrived: Tensor,
    out: Tensor,
    *,
    decay: tuple[Tensor, Tensor] | None,
    gated: bool,
    negative_eigenvalues: bool,
    eps: float,
    settled: bool = False,
) -> Tensor:
    """One token of DeltaNet (no decay, no gate) or GDN (a decay a head, a silu gate).

    Args:
        projected: `x W` `[b, n]`: q and k (h*k each), v (h*v), the gate (h*v, if any), beta (h) and
            the decay (h, if any), side by side.
        history: Inputs of the convolution at the last c - 1 tokens `[b, c-1, h*(2k+v)]`, oldest
            first; changed in place.
        taps: Its weights `[c, h*(2k+v)]`; one of ones where there is no convolution.
        state: `[b h k v]`, float32; changed in place.
        norm: Weights of the read-out's norm `[v]`.
        raw: Scratch `[b, h*v]`, float32.
        arrived: Counters `[b, h]`, int32, all 0; they are 0 again afterwards.
        out: Result `[b, h*v]`.
        decay: `A_log` and `dt_bias` `[h]` each, or None.
        gated: Whether there is a gate.
        negative_eigenvalues: Whether beta ranges over (0, 2).
        eps: Of the norm.
        settled: Whether all but `projected` was there before the last kernel that was launched the
            usual way: it may then be loaded before the kernel ahead has ended.

    Returns:
        `out`: the input of the output projection.
    """
    batch, heads, width, values = state.shape
    rate, bias = decay if decay is not None else (norm, norm)
    keys, all_values = triton.next_power_of_2(width), triton.next_power_of_2(values)
    tile = min(all_values, max(_STATE // keys, 16))
    tiles = triton.cdiv(values, tile)
    warps = keys * tile // (32 * _VALUES_OF_A_THREAD)
    early, taken = settled and overlaps(state.device), len(taps)
    _step_kernel[(batch * heads * tiles,)](
        projected, history, taps, state, rate, bias, norm, raw, arrived, out,
        width**-0.5, eps, 2.0 if negative_eigenvalues else 1.0, projected.stride(0),
        H=heads, DK=width, DV=values, BK=keys, BV=tile, TILES=tiles, BALL=all_values,
        CONV=taken, ROWS=triton.next_power_of_2(taken),
        DECAY=decay is not None, GATED=gated, PDL=early,
        num_warps=min(max(warps, 1), 8), launch_pdl=early,
    )  # fmt: skip
    return out
