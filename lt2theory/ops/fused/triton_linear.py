# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Products of a few rows with large matrices, with what stands before and after them.

At batch sizes of decoding a product takes as long as its weights take to arrive. So the root mean
square of the input is taken along the way (its norm's weights are folded into the matrix), and
what follows (a SwiGLU, a residual) happens before the result is written.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor


@triton.jit
@no_type_check
def _linear_kernel(
    X, W, RESIDUAL, OUT, eps, rows, N,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr, SLICES: tl.constexpr,
    EVEN: tl.constexpr, NORM: tl.constexpr, SWIGLU: tl.constexpr, ADD: tl.constexpr,
    PREC: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    """BN outputs of all rows; with SWIGLU also the BN outputs that gate them, N rows further on.

    With several slices the inputs are taken side by side, one slice a warp: where few outputs make
    few tiles, one warp that walked along all inputs would take longer than the weights. (SLICES = 1
    is a case of its own below, since Hopper's wide matrix instruction wants two axes.)
    """
    m = tl.program_id(1) * BM + tl.arange(0, BM)
    n = tl.program_id(0) * BN + tl.arange(0, BN)
    rows_at = X + m.to(tl.int64) * D
    outs_at = W + n.to(tl.int64) * D
    if SLICES == 1:
        d = tl.arange(0, BD)
        x_at, w_at = rows_at[None, :] + d[:, None], outs_at[:, None] + d[None, :]
        real_m, real_n = (m < rows)[None, :], (n < N)[:, None]
        acc = tl.zeros([BN, BM], tl.float32)
        other = tl.zeros([BN, BM], tl.float32)
        square = tl.zeros([BD, BM], tl.float32)
    else:
        d = tl.arange(0, SLICES)[:, None] * BD + tl.arange(0, BD)[None, :]
        x_at, w_at = rows_at[None, None, :] + d[:, :, None], outs_at[None, :, None] + d[:, None, :]
        real_m, real_n = (m < rows)[None, None, :], (n < N)[None, :, None]
        acc = tl.zeros([SLICES, BN, BM], tl.float32)
        other = tl.zeros([SLICES, BN, BM], tl.float32)
        square = tl.zeros([SLICES, BD, BM], tl.float32)
    v_at = w_at + N.to(tl.int64) * D
    for start in tl.range(0, D, SLICES * BD, num_stages=STAGES):
        if EVEN:
            x = tl.load(x_at + start, mask=real_m, other=0.0)
            w = tl.load(w_at + start)
        else:
            left = D - start
            x_in = d[:, None] < left if SLICES == 1 else d[:, :, None] < left
            w_in = d[None, :] < left if SLICES == 1 else d[:, None, :] < left
            x = tl.load(x_at + start, mask=real_m & x_in, other=0.0)
            w = tl.load(w_at + start, mask=real_n & w_in, other=0.0)
        if NORM:
            wide = x.to(tl.float32)
            square += wide * wide
        acc = tl.dot(w, x, acc, input_precision=PREC)
        if SWIGLU:
            if EVEN:
                v = tl.load(v_at + start)
            else:
                v = tl.load(v_at + start, mask=real_n & w_in, other=0.0)
            other = tl.dot(v, x, other, input_precision=PREC)
    if SLICES > 1:
        acc = tl.sum(acc, 0)
        other = tl.sum(other, 0)
        square = tl.sum(square, 0)
    y = acc
    if NORM:
        scale = tl.rsqrt(tl.sum(square, 0) / D + eps)[None, :]
        y *= scale
        other *= scale
    if SWIGLU:
        y = y * tl.sigmoid(y) * other
    at = m[None, :].to(tl.int64) * N + n[:, None]
    mask = (m < rows)[None, :] & (n < N)[:, None]
    if ADD:
        y += tl.load(RESIDUAL + at, mask=mask, other=0.0).to(tl.float32)
    tl.store(OUT + at, y.to(OUT.dtype.element_ty), mask=mask)


def _tiles(outputs: int) -> tuple[int, int, int, int, int]:
    """Outputs of a tile, inputs of a slice, slices, warps, stages (best on an H200 at 8 rows)."""
    return (16, 64, 4, 4, 5) if outputs < 4096 else (64, 128, 1, 4, 4)


def few_rows_linear(
    x: Float[Tensor, "b d"],
    weight: Float[Tensor, "n d"],
    out: Float[Tensor, "b m"],
    *,
    eps: float | None = None,
    swiglu: bool = False,
    residual: Float[Tensor, "b m"] | None = None,
) -> Float[Tensor, "b m"]:
    """`x W^T`, optionally of the normalised x, with a SwiGLU or a residual, written into `out`.

    Sums run in float32. All tensors are contiguous, on one CUDA device.

    Args:
        x: Inputs, float32, bfloat16 or float16.
        weight: Matrix, in the dtype of x.
        out: Result; `residual` itself is allowed.
        eps: Divide x by the root of its mean square plus this first; None takes x as it is.
        swiglu: The matrix holds the gated half above the other: `silu(x W_1) * (x W_3)`.
        residual: Added to the result.

    Returns:
        `out`.
    """
    rows, width = x.shape
    outputs = weight.shape[0] // 2 if swiglu else weight.shape[0]
    block_m, (block_n, block_d, slices, warps, stages) = 16, _tiles(outputs)
    _linear_kernel[(triton.cdiv(outputs, block_n), triton.cdiv(rows, block_m))](
        x, weight, x if residual is None else residual, out, eps or 0.0, rows, outputs,
        D=width, BM=block_m, BN=block_n, BD=block_d, SLICES=slices,
        EVEN=outputs % block_n == 0 and width % (slices * block_d) == 0,
        NORM=eps is not None, SWIGLU=swiglu, ADD=residual is not None,
        PREC="ieee" if x.dtype == torch.float32 else "tf32", STAGES=stages,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out
