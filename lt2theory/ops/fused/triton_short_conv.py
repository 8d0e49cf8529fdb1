# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Kernels of `lt2theory.ops.fused.short_conv`: a short convolution with what follows it."""

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def _before(Z, TAPS, b, t, length, channels, here, real, W: tl.constexpr):
    """The convolution of some tokens and channels, before its silu."""
    pre = tl.zeros([t.shape[0], here.shape[0]], tl.float32)
    for j in tl.static_range(W):
        at = t - (W - 1 - j)
        mask = ((at >= 0) & (at < length))[:, None] & real[None, :]
        z = tl.load(Z + (b * length + at)[:, None] * channels + here[None, :], mask=mask, other=0.0)
        tap = tl.load(TAPS + here * W + j, mask=real, other=0.0).to(tl.float32)
        pre += z.to(tl.float32) * tap[None, :]
    return pre


@triton.jit
@no_type_check
def forward_kernel(
    Z, TAPS, OUT, length, channels, offset, heads,
    D: tl.constexpr, BD: tl.constexpr, BT: tl.constexpr, W: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    """One program a stretch of tokens of one sequence, and a head."""
    stretches = tl.cdiv(length, BT)
    b = (tl.program_id(0) // stretches).to(tl.int64)
    t = (tl.program_id(0) % stretches) * BT + tl.arange(0, BT)
    h = tl.program_id(1)
    c = tl.arange(0, BD)
    real = c < D
    pre = _before(Z, TAPS, b, t, length, channels, offset + h * D + c, real, W)
    y = pre * tl.sigmoid(pre)
    if UNIT:
        y *= tl.rsqrt(tl.sum(y * y, 1) + 1e-6)[:, None]
    at = ((b * length + t) * heads + h)[:, None] * D + c[None, :]
    tl.store(OUT + at, y.to(OUT.dtype.element_ty), mask=(t < length)[:, None] & real[None, :])


@triton.jit
@no_type_check
def before_silu_kernel(
    Z, TAPS, GRAD, BEFORE, PARTS, length, channels, offset, heads,
    D: tl.constexpr, BD: tl.constexpr, BT: tl.constexpr, W: tl.constexpr, UNIT: tl.constexpr,
):  # fmt: skip
    """Gradient before the silu, and this stretch's part of the gradient of the taps."""
    stretches = tl.cdiv(length, BT)
    b = (tl.program_id(0) // stretches).to(tl.int64)
    t = (tl.program_id(0) % stretches) * BT + tl.arange(0, BT)
    h = tl.program_id(1)
    c = tl.arange(0, BD)
    real = c < D
    here = offset + h * D + c
    inside = (t < length)[:, None] & real[None, :]
    pre = _before(Z, TAPS, b, t, length, channels, here, real, W)
    at = ((b * length + t) * heads + h)[:, None] * D + c[None, :]
    g = tl.load(GRAD + at, mask=inside, other=0.0).to(tl.float32)
    gate = tl.sigmoid(pre)
    if UNIT:
        y = pre * gate
        r = tl.rsqrt(tl.sum(y * y, 1) + 1e-6)[:, None]
        g = r * (g - y * r * r * tl.sum(g * y, 1)[:, None])
    g *= gate * (1.0 + pre * (1.0 - gate))
    tl.store(BEFORE + (b * length + t)[:, None] * channels + here[None, :], g, mask=inside)
    for j in tl.static_range(W):
        past = t - (W - 1 - j)
        mask = ((past >= 0) & (past < length))[:, None] & real[None, :]
        z = tl.load(
            Z + (b * length + past)[:, None] * channels + here[None, :], mask=mask, other=0.0
        )
        part = tl.sum(g * z.to(tl.float32), 0)
        row = tl.program_id(0).to(tl.int64) * W + j
        tl.store(PARTS + row * channels + here, part, mask=real)


@triton.jit
@no_type_check
def inputs_kernel(
    BEFORE, TAPS, GRAD, length, channels,
    BC: tl.constexpr, BT: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Gradient of the inputs: the convolution turned round in time."""
    stretches = tl.cdiv(length, BT)
    b = (tl.program_id(0) // stretches).to(tl.int64)
    t = (tl.program_id(0) % stretches) * BT + tl.arange(0, BT)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    real = c < channels
    total = tl.zeros([BT, BC], tl.float32)
    for j in tl.static_range(W):
        later = t + (W - 1 - j)
        mask = (later < length)[:, None] & real[None, :]
        at = (b * length + later)[:, None] * channels + c[None, :]
        tap = tl.load(TAPS + c * W + j, mask=real, other=0.0).to(tl.float32)
        total += tl.load(BEFORE + at, mask=mask, other=0.0) * tap[None, :]
    at = (b * length + t)[:, None] * channels + c[None, :]
    mask = (t < length)[:, None] & real[None, :]
    tl.store(GRAD + at, total.to(GRAD.dtype.element_ty), mask=mask)
