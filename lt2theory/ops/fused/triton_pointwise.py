# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Kernels of `lt2theory.ops.fused.swiglu` and `.loop_residual`: one pass over memory each way."""

from typing import no_type_check

import triton
import triton.language as tl

from lt2theory.ops.fused.triton_rows import load_wide, store_as


@triton.jit(do_not_specialize=["rows"])
@no_type_check
def swiglu_kernel(Z, OUT, rows, D: tl.constexpr, BD: tl.constexpr, BR: tl.constexpr):
    """`silu(a) * b` of rows `[a b]` of 2 D numbers; a program takes a tile of the D columns."""
    r = tl.program_id(0).to(tl.int64) * BR + tl.arange(0, BR)
    c = tl.program_id(1) * BD + tl.arange(0, BD)
    mask = (r < rows)[:, None] & (c < D)[None, :]
    at = r[:, None] * (2 * D) + c[None, :]
    a = load_wide(Z, at, mask)
    b = load_wide(Z, at + D, mask)
    store_as(OUT, r[:, None] * D + c[None, :], a * tl.sigmoid(a) * b, mask)


@triton.jit(do_not_specialize=["rows"])
@no_type_check
def swiglu_backward_kernel(GRAD, Z, D_Z, rows, D: tl.constexpr, BD: tl.constexpr, BR: tl.constexpr):
    """Gradient of the rows `[a b]`."""
    r = tl.program_id(0).to(tl.int64) * BR + tl.arange(0, BR)
    c = tl.program_id(1) * BD + tl.arange(0, BD)
    mask = (r < rows)[:, None] & (c < D)[None, :]
    at = r[:, None] * (2 * D) + c[None, :]
    a = load_wide(Z, at, mask)
    b = load_wide(Z, at + D, mask)
    g = load_wide(GRAD, r[:, None] * D + c[None, :], mask)
    share = tl.sigmoid(a)
    store_as(D_Z, at, g * b * share * (1.0 + a * (1.0 - share)), mask)
    store_as(D_Z, at + D, g * a * share, mask)


@triton.jit(do_not_specialize=["rows"])
@no_type_check
def residual_kernel(H, START, RHO, OUT, rows, D: tl.constexpr, BD: tl.constexpr, BR: tl.constexpr):
    """`h + rho * start`, one rho a column."""
    r = tl.program_id(0).to(tl.int64) * BR + tl.arange(0, BR)
    c = tl.program_id(1) * BD + tl.arange(0, BD)
    at = r[:, None] * D + c[None, :]
    mask = (r < rows)[:, None] & (c < D)[None, :]
    rho = load_wide(RHO, c, c < D)
    store_as(OUT, at, load_wide(H, at, mask) + rho[None, :] * load_wide(START, at, mask), mask)


@triton.jit(do_not_specialize=["rows"])
@no_type_check
def residual_backward_kernel(
    GRAD, START, RHO, D_START, PARTS, rows,
    D: tl.constexpr, BD: tl.constexpr, BR: tl.constexpr, STEPS: tl.constexpr,
):  # fmt: skip
    """Gradient of the start, and STEPS tiles' part of that of rho."""
    c = tl.program_id(1) * BD + tl.arange(0, BD)
    rho = load_wide(RHO, c, c < D)
    part = tl.zeros([BR, BD], tl.float32)
    for step in range(STEPS):
        r = (tl.program_id(0).to(tl.int64) * STEPS + step) * BR + tl.arange(0, BR)
        at = r[:, None] * D + c[None, :]
        mask = (r < rows)[:, None] & (c < D)[None, :]
        g = load_wide(GRAD, at, mask)
        part += g * load_wide(START, at, mask)
        store_as(D_START, at, g * rho[None, :], mask)
    tl.store(PARTS + tl.program_id(0) * D + c, tl.sum(part, 0), mask=c < D)
