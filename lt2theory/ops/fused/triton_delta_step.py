# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""One token of a delta-rule mixer, from its projections to its gated, normalised read-out.

Convolution, silu, unit keys and queries, gates, decay, erasure, write, read, norm and output gate
in one kernel; convolution history and state change in place.
"""

from typing import no_type_check

import triton
import triton.language as tl
from torch import Tensor

_TILE, _WARPS = 64, 4
"""Values that one program takes, and its warps."""


@triton.jit
@no_type_check
def _convolved(P, HISTORY, WEIGHT, base, at, mask, channels, row, CONV: tl.constexpr):
    """Inputs of some channels, and silu of their convolution; only loads, so they overlap."""
    x = tl.load(P + base + at, mask=mask, other=0.0).to(tl.float32)
    y = x
    if CONV > 0:
        y = x * tl.load(WEIGHT + at * CONV + CONV - 1, mask=mask, other=0.0).to(tl.float32)
        for j in tl.static_range(CONV - 1):
            place = HISTORY + (row * (CONV - 1) + j) * channels + at
            old = tl.load(place, mask=mask, other=0.0).to(tl.float32)
            y += old * tl.load(WEIGHT + at * CONV + j, mask=mask, other=0.0).to(tl.float32)
    return x, y * tl.sigmoid(y)


@triton.jit
@no_type_check
def _move_on(HISTORY, x, at, mask, channels, row, CONV: tl.constexpr):
    """Shift the history of some channels by one token."""
    for j in tl.static_range(CONV - 1):
        place = HISTORY + (row * (CONV - 1) + j) * channels + at
        if j < CONV - 2:
            tl.store(place, tl.load(place + channels, mask=mask, other=0.0), mask=mask)
        else:
            tl.store(place, x.to(HISTORY.dtype.element_ty), mask=mask)


@triton.jit
@no_type_check
def _step_kernel(
    P, HISTORY, WEIGHT, STATE, RATE, BIAS, NORM, RAW, ARRIVED, OUT,
    scale, eps, beta_range, stride,
    H: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
    TILES: tl.constexpr, BALL: tl.constexpr,
    CONV: tl.constexpr, DECAY: tl.constexpr, GATE: tl.constexpr,
):  # fmt: skip
    """One program a row, head and tile of values; projections lie as q, k, v, gate, beta, decay.

    Whichever program of a head comes last normalises what all of them have read.
    """
    tile = tl.program_id(0) % TILES
    h = (tl.program_id(0) // TILES) % H
    row = (tl.program_id(0) // (TILES * H)).to(tl.int64)
    head = row * H + h
    base = row * stride
    channels: tl.constexpr = H * (2 * DK + DV)
    c = tl.arange(0, BK)
    e = tile * BV + tl.arange(0, BV)
    real = c < DK
    some = e < DV
    # The state is asked for first: all else happens while it arrives. All loads come before the
    # first store, since the compiler would not move them across it.
    # Values are the rows: sums over the key width then stay inside a warp.
    at = STATE + (head * DV + e[:, None]) * DK + c[None, :]
    mask = some[:, None] & real[None, :]
    s = tl.load(at, mask=mask, other=0.0)
    q_at, k_at, v_at = h * DK + c, (H + h) * DK + c, 2 * H * DK + h * DV + e
    q_in, q = _convolved(P, HISTORY, WEIGHT, base, q_at, real, channels, row, CONV)
    k_in, k = _convolved(P, HISTORY, WEIGHT, base, k_at, real, channels, row, CONV)
    v_in, v = _convolved(P, HISTORY, WEIGHT, base, v_at, some, channels, row, CONV)
    gates = P + base + channels + (H * DV if GATE > 0 else 0)
    beta = beta_range * tl.sigmoid(tl.load(gates + h).to(tl.float32))
    if DECAY:
        raw = tl.load(gates + H + h).to(tl.float32) + tl.load(BIAS + h).to(tl.float32)
        # softplus, without overflow for large inputs
        soft = tl.maximum(raw, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(raw)))
        s *= tl.exp(-tl.exp(tl.load(RATE + h).to(tl.float32)) * soft)
    q = tl.where(real, q * tl.rsqrt(tl.sum(q * q, 0) + 1e-6) * scale, 0.0)
    k = tl.where(real, k * tl.rsqrt(tl.sum(k * k, 0) + 1e-6), 0.0)
    u = beta * (v - tl.sum(s * k[None, :], 1))
    s += u[:, None] * k[None, :]
    tl.store(at, s, mask=mask)
    o = tl.sum(s * q[None, :], 1)
    tl.store(RAW + head * DV + e, o, mask=some)
    if CONV > 0:
        _move_on(HISTORY, v_in, v_at, some, channels, row, CONV)
    # All stores of this program come before its arrival, and all loads of the last one after it.
    tl.debug_barrier()
    if tl.atomic_add(ARRIVED + head, 1, sem="acq_rel") == TILES - 1:
        tl.store(ARRIVED + head, 0)
        if CONV > 0:
            _move_on(HISTORY, q_in, q_at, real, channels, row, CONV)
            _move_on(HISTORY, k_in, k_at, real, channels, row, CONV)
        f = tl.arange(0, BALL)
        there = f < DV
        whole = tl.load(RAW + head * DV + f, mask=there, other=0.0, cache_modifier=".cg")
        gain = tl.load(NORM + f, mask=there, other=0.0).to(tl.float32)
        if GATE > 0:
            g = tl.load(P + base + channels + h * DV + f, mask=there, other=0.0).to(tl.float32)
            gain *= g * tl.sigmoid(g) if GATE == 1 else tl.sigmoid(g)
        whole *= tl.rsqrt(tl.sum(whole * whole, 0) / DV + eps) * gain
        tl.store(OUT + head * DV + f, whole.to(OUT.dtype.element_ty), mask=there)


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
) -> Tensor:
    """One token of DeltaNet (no decay, no gate) or GDN (a decay a head, a silu gate).

    Args:
        projected: `x W` `[b, n]`: q and k (h*k each), v (h*v), the gate (h*v, if any), beta (h) and
            the decay (h, if any), side by side.
        history: Inputs of the convolution at the last c - 1 tokens `[b, c-1, h*(2k+v)]`, oldest
            first; changed in place.
        taps: Its weights `[h*(2k+v), c]`.
        state: `[b h v k]` (transposed), float32; changed in place.
        norm: Weights of the read-out's norm `[v]`.
        raw: Scratch `[b, h*v]`, float32.
        arrived: Counters `[b, h]`, int32, all 0; they are 0 again afterwards.
        out: Result `[b, h*v]`.
        decay: `A_log` and `dt_bias` `[h]` each, or None.
        gated: Whether there is a gate.
        negative_eigenvalues: Whether beta ranges over (0, 2).
        eps: Of the norm.

    Returns:
        `out`: the input of the output projection.
    """
    batch, heads, values, width = state.shape
    rate, bias = decay if decay is not None else (norm, norm)
    tile = min(_TILE, triton.next_power_of_2(values))
    tiles = triton.cdiv(values, tile)
    _step_kernel[(batch * heads * tiles,)](
        projected, history, taps, state, rate, bias, norm, raw, arrived, out,
        width**-0.5, eps, 2.0 if negative_eigenvalues else 1.0, projected.stride(0),
        H=heads, DK=width, DV=values,
        BK=triton.next_power_of_2(width), BV=tile, TILES=tiles,
        BALL=triton.next_power_of_2(values),
        CONV=taps.shape[1] if taps.dim() == 2 else 0,
        DECAY=decay is not None, GATE=int(gated),
        num_warps=_WARPS,
    )  # fmt: skip
    return out
