# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Kernels of `lt2theory.ops.fused.short_conv`: a short convolution with what follows it."""

from typing import no_type_check

import triton
import triton.language as tl

from lt2theory.ops.fused.triton_rows import load_wide, store_as


@triton.jit
@no_type_check
def _region(
    H: tl.constexpr, F: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, BD: tl.constexpr
):  # fmt: skip
    """What is this program's; values come in tiles of BD, as only keys have to be whole for a norm.

    Returns:
        Its head among all, and among those of values (-1 for others); its channels within the head
        and among all; which of them there are.
    """
    TILES: tl.constexpr = (DV + BD - 1) // BD
    head = tl.program_id(1)
    tile = tl.maximum(head - H * (1 + F), 0)
    value = tl.where(head < H * (1 + F), -1, tile // TILES)
    c = tile % TILES * BD + tl.arange(0, BD)
    first = tl.minimum(head, H * (1 + F)) * DK + tl.maximum(value, 0) * DV
    return head, value, c, first + c, c < tl.where(value < 0, DK, DV)


@triton.jit
@no_type_check
def _joined(SEGMENTS, b, t, other, length, PACKED: tl.constexpr):
    """Which of some tokens belong to the text of another token beside them."""
    there = (other >= 0) & (other < length)
    if PACKED:
        own = tl.load(SEGMENTS + b * length + t, mask=t < length, other=-2)
        its = tl.load(SEGMENTS + b * length + other, mask=there, other=-3)
        there = there & (own == its)
    return there


@triton.jit
@no_type_check
def _before(
    Z, TAPS, SEGMENTS, b, t, length,
    STRIDE: tl.constexpr, here, real, W: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """The convolution of some tokens and channels, before its silu."""
    pre = tl.zeros([t.shape[0], here.shape[0]], tl.float32)
    for j in tl.static_range(W):
        at = t - (W - 1 - j)
        mask = _joined(SEGMENTS, b, t, at, length, PACKED)[:, None] & real[None, :]
        z = load_wide(Z, (b * length + at)[:, None] * STRIDE + here[None, :], mask)
        pre += z * load_wide(TAPS, here * W + j, real)[None, :]
    return pre


@triton.jit(do_not_specialize=["length"])
@no_type_check
def forward_kernel(
    Z, TAPS, SEGMENTS, Q, K, V, length,
    H: tl.constexpr, F: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, STRIDE: tl.constexpr,
    BD: tl.constexpr, BT: tl.constexpr, W: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """One program a stretch of tokens of one sequence, and a head."""
    stretches = tl.cdiv(length, BT)
    b = (tl.program_id(0) // stretches).to(tl.int64)
    t = (tl.program_id(0) % stretches) * BT + tl.arange(0, BT)
    head, value, c, here, real = _region(H, F, DK, DV, BD)
    inside = (t < length)[:, None] & real[None, :]
    pre = _before(Z, TAPS, SEGMENTS, b, t, length, STRIDE, here, real, W, PACKED)
    y = pre * tl.sigmoid(pre)
    token = (b * length + t)[:, None]
    if value < 0:
        y *= tl.rsqrt(tl.sum(y * y, 1) + 1e-6)[:, None]
        if head < H:
            store_as(Q, (token * H + head) * DK + c[None, :], y, inside)
        else:
            store_as(K, (token * (F * H) + head - H) * DK + c[None, :], y, inside)
    else:
        store_as(V, (token * (F * H) + value) * DV + c[None, :], y, inside)


@triton.jit(do_not_specialize=["length"])
@no_type_check
def before_silu_kernel(
    Z, TAPS, SEGMENTS, D_Q, D_K, D_V, BEFORE, PARTS, length,
    H: tl.constexpr, F: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr, STRIDE: tl.constexpr,
    BD: tl.constexpr, BT: tl.constexpr, W: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """Gradient before the silu, and this stretch's part of the gradient of the taps."""
    CHANNELS: tl.constexpr = H * (1 + F) * DK + H * F * DV
    stretches = tl.cdiv(length, BT)
    b = (tl.program_id(0) // stretches).to(tl.int64)
    t = (tl.program_id(0) % stretches) * BT + tl.arange(0, BT)
    head, value, c, here, real = _region(H, F, DK, DV, BD)
    inside = (t < length)[:, None] & real[None, :]
    pre = _before(Z, TAPS, SEGMENTS, b, t, length, STRIDE, here, real, W, PACKED)
    token = (b * length + t)[:, None]
    gate = tl.sigmoid(pre)
    g = tl.zeros([BT, BD], tl.float32)
    if value < 0:
        if head < H:
            g = load_wide(D_Q, (token * H + head) * DK + c[None, :], inside)
        else:
            g = load_wide(D_K, (token * (F * H) + head - H) * DK + c[None, :], inside)
        y = pre * gate
        r = tl.rsqrt(tl.sum(y * y, 1) + 1e-6)[:, None]
        g = r * (g - y * r * r * tl.sum(g * y, 1)[:, None])
    else:
        g = load_wide(D_V, (token * (F * H) + value) * DV + c[None, :], inside)
    g *= gate * (1.0 + pre * (1.0 - gate))
    tl.store(BEFORE + token * CHANNELS + here[None, :], g, mask=inside)
    for j in tl.static_range(W):
        past = t - (W - 1 - j)
        mask = _joined(SEGMENTS, b, t, past, length, PACKED)[:, None] & real[None, :]
        z = load_wide(Z, (b * length + past)[:, None] * STRIDE + here[None, :], mask)
        row = tl.program_id(0).to(tl.int64) * W + j
        tl.store(PARTS + row * CHANNELS + here, tl.sum(g * z, 0), mask=real)


@triton.jit(do_not_specialize=["length"])
@no_type_check
def inputs_kernel(
    BEFORE, TAPS, SEGMENTS, GRAD, length,
    CHANNELS: tl.constexpr, STRIDE: tl.constexpr,
    BC: tl.constexpr, BT: tl.constexpr, W: tl.constexpr, PACKED: tl.constexpr,
):  # fmt: skip
    """Gradient of the inputs: the convolution turned round in time."""
    stretches = tl.cdiv(length, BT)
    b = (tl.program_id(0) // stretches).to(tl.int64)
    t = (tl.program_id(0) % stretches) * BT + tl.arange(0, BT)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    real = c < CHANNELS
    total = tl.zeros([BT, BC], tl.float32)
    for j in tl.static_range(W):
        later = t + (W - 1 - j)
        mask = _joined(SEGMENTS, b, t, later, length, PACKED)[:, None] & real[None, :]
        before = load_wide(BEFORE, (b * length + later)[:, None] * CHANNELS + c[None, :], mask)
        total += before * load_wide(TAPS, c * W + j, real)[None, :]
    at = (b * length + t)[:, None] * STRIDE + c[None, :]
    store_as(GRAD, at, total, (t < length)[:, None] & real[None, :])
