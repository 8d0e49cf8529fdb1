# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Triton kernels for the gated sum of three branches and the gradient of its gates.

Importing this module imports Triton. Axes: n rows (queries and heads), v value width.
"""

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def gated_sum_kernel(
    A, B, C, GATES, OUT, N, DV: tl.constexpr, BM: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """`g_0 a + g_1 b + g_2 c` for a tile of rows."""
    n = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    w = tl.arange(0, BV)
    at = n[:, None] * DV + w[None, :]
    mask = (n < N)[:, None] & (w < DV)[None, :]
    a = tl.load(A + at, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(B + at, mask=mask, other=0.0).to(tl.float32)
    c = tl.load(C + at, mask=mask, other=0.0).to(tl.float32)
    a *= tl.load(GATES + n * 3, mask=n < N, other=0.0).to(tl.float32)[:, None]
    b *= tl.load(GATES + n * 3 + 1, mask=n < N, other=0.0).to(tl.float32)[:, None]
    c *= tl.load(GATES + n * 3 + 2, mask=n < N, other=0.0).to(tl.float32)[:, None]
    tl.store(OUT + at, (a + b + c).to(OUT.dtype.element_ty), mask=mask)


@triton.jit
@no_type_check
def gate_gradient_kernel(
    A, B, C, DO, DOTS, N, DV: tl.constexpr, BM: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Products of the gradient with every branch: the gradients of the gates."""
    n = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    w = tl.arange(0, BV)
    at = n[:, None] * DV + w[None, :]
    mask = (n < N)[:, None] & (w < DV)[None, :]
    do = tl.load(DO + at, mask=mask, other=0.0).to(tl.float32)
    a = tl.load(A + at, mask=mask, other=0.0).to(tl.float32)
    b = tl.load(B + at, mask=mask, other=0.0).to(tl.float32)
    c = tl.load(C + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(DOTS + n * 3, tl.sum(a * do, 1), mask=n < N)
    tl.store(DOTS + n * 3 + 1, tl.sum(b * do, 1), mask=n < N)
    tl.store(DOTS + n * 3 + 2, tl.sum(c * do, 1), mask=n < N)
