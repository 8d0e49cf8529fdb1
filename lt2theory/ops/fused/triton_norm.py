# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Kernels of `ops.fused.norm`, `.add_norm` and `.gated_norm`: some rows of a matrix a program.

A row lies in the registers of one program, so its root mean square is computed again in backward
instead of being kept. A program of a backward kernel adds up its part of the weight's gradient over
STEPS tiles of rows; the parts are summed outside, always in the same order.
"""

from typing import no_type_check

import triton
import triton.language as tl

from lt2theory.ops.fused.triton_rows import load_wide, store_as


@triton.jit
@no_type_check
def _inverse_rms(x, eps, D: tl.constexpr):
    return tl.rsqrt(tl.sum(x * x, 1) / D + eps)[:, None]


@triton.jit
@no_type_check
def _gradient(g, unit, inverse, D: tl.constexpr):
    """Gradient of x from that of `unit = x * inverse`."""
    return inverse * (g - unit * (tl.sum(g * unit, 1) / D)[:, None])


@triton.jit(do_not_specialize=["rows"])
@no_type_check
def norm_kernel(
    X, CHANGE, WEIGHT, SUM, OUT, rows, eps,
    D: tl.constexpr, BD: tl.constexpr, BR: tl.constexpr, ADDS: tl.constexpr,
):  # fmt: skip
    """The norm of x, or that of x plus a change, which is written too."""
    r = tl.program_id(0).to(tl.int64) * BR + tl.arange(0, BR)
    c = tl.arange(0, BD)
    at = r[:, None] * D + c[None, :]
    mask = (r < rows)[:, None] & (c < D)[None, :]
    x = load_wide(X, at, mask)
    if ADDS:
        total = (x + load_wide(CHANGE, at, mask)).to(SUM.dtype.element_ty)
        tl.store(SUM + at, total, mask=mask)
        x = total.to(tl.float32)
    w = load_wide(WEIGHT, c, c < D)
    store_as(OUT, at, x * _inverse_rms(x, eps, D) * w[None, :], mask)


@triton.jit(do_not_specialize=["rows"])
@no_type_check
def norm_backward_kernel(
    GRAD, BESIDE, X, WEIGHT, D_X, D_CHANGE, PARTS, rows, eps,
    D: tl.constexpr, BD: tl.constexpr, BR: tl.constexpr, STEPS: tl.constexpr,
    BESIDES: tl.constexpr, TWO: tl.constexpr,
):  # fmt: skip
    """Gradients of x and of the weight.

    BESIDES adds the gradient that reaches x on another way, and TWO writes the sum a second time,
    in the dtype of the change.
    """
    c = tl.arange(0, BD)
    w = load_wide(WEIGHT, c, c < D)
    part = tl.zeros([BR, BD], tl.float32)
    for step in range(STEPS):
        r = (tl.program_id(0).to(tl.int64) * STEPS + step) * BR + tl.arange(0, BR)
        at = r[:, None] * D + c[None, :]
        mask = (r < rows)[:, None] & (c < D)[None, :]
        x = load_wide(X, at, mask)
        g = load_wide(GRAD, at, mask)
        inverse = _inverse_rms(x, eps, D)
        unit = x * inverse
        part += g * unit
        d_x = _gradient(g * w[None, :], unit, inverse, D)
        if BESIDES:
            d_x += load_wide(BESIDE, at, mask)
        store_as(D_X, at, d_x, mask)
        if TWO:
            store_as(D_CHANGE, at, d_x, mask)
    tl.store(PARTS + tl.program_id(0) * D + c, tl.sum(part, 0), mask=c < D)


@triton.jit(do_not_specialize=["rows"])
@no_type_check
def gated_norm_kernel(
    X, GATE, WEIGHT, OUT, rows, eps,
    D: tl.constexpr, BD: tl.constexpr, BR: tl.constexpr, SILU: tl.constexpr,
):  # fmt: skip
    """The norm of x times a silu, or a sigmoid, of the gate."""
    r = tl.program_id(0).to(tl.int64) * BR + tl.arange(0, BR)
    c = tl.arange(0, BD)
    at = r[:, None] * D + c[None, :]
    mask = (r < rows)[:, None] & (c < D)[None, :]
    x = load_wide(X, at, mask)
    gate = load_wide(GATE, at, mask)
    w = load_wide(WEIGHT, c, c < D)
    y = x * _inverse_rms(x, eps, D) * w[None, :] * tl.sigmoid(gate)
    if SILU:
        y *= gate
    store_as(OUT, at, y, mask)


@triton.jit(do_not_specialize=["rows"])
@no_type_check
def gated_norm_backward_kernel(
    GRAD, X, GATE, WEIGHT, D_X, D_GATE, PARTS, rows, eps,
    D: tl.constexpr, BD: tl.constexpr, BR: tl.constexpr, STEPS: tl.constexpr, SILU: tl.constexpr,
):  # fmt: skip
    """Gradients of x, of the gate and of the weight."""
    c = tl.arange(0, BD)
    w = load_wide(WEIGHT, c, c < D)
    part = tl.zeros([BR, BD], tl.float32)
    for step in range(STEPS):
        r = (tl.program_id(0).to(tl.int64) * STEPS + step) * BR + tl.arange(0, BR)
        at = r[:, None] * D + c[None, :]
        mask = (r < rows)[:, None] & (c < D)[None, :]
        x = load_wide(X, at, mask)
        g = load_wide(GRAD, at, mask)
        gate = load_wide(GATE, at, mask)
        inverse = _inverse_rms(x, eps, D)
        unit = x * inverse
        share = tl.sigmoid(gate)
        if SILU:
            opened = gate * share
            slope = share * (1.0 + gate * (1.0 - share))
        else:
            opened = share
            slope = share * (1.0 - share)
        store_as(D_GATE, at, g * unit * w[None, :] * slope, mask)
        g *= opened
        part += g * unit
        store_as(D_X, at, _gradient(g * w[None, :], unit, inverse, D), mask)
    tl.store(PARTS + tl.program_id(0) * D + c, tl.sum(part, 0), mask=c < D)
