# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Products of a few rows with large matrices, with what stands before and after them.

At batch sizes of decoding a product takes as long as its weights take to arrive. So the root mean
square of the input is taken along the way (its norm's weights are folded into the matrix), and
what follows (a SwiGLU, a residual) happens before the result is written. The first weights are
asked for before the kernel that writes the input has ended.
"""

from dataclasses import dataclass
from functools import cache
from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from lt2theory.ops.fused.triton_overlap import (
    fetch_to_l2,
    let_next_start,
    overlaps,
    wait_for_last,
)
from lt2theory.ops.workload import is_interpreting


@triton.jit
@no_type_check
def _weights(at, mine, inside, ALL: tl.constexpr, EVEN: tl.constexpr):
    """Weights of some outputs and inputs; masks that hold everywhere would only cost registers."""
    if ALL and EVEN:
        w = tl.load(at)
    elif EVEN:
        w = tl.load(at, mask=mine, other=0.0)
    else:
        w = tl.load(at, mask=mine & inside, other=0.0)
    return w


@triton.jit
@no_type_check
def _ended(acc, DRAIN: tl.constexpr):
    """Have the product end here rather than run on into the next round of the loop."""
    # Triton 3.6 gives a tensor that enters a wide product of Hopper and is also read otherwise (x,
    # for its mean square) one buffer too few for a product that runs on: the loads of a later round
    # would overwrite what it still reads (triton-lang/triton, issue 6691). A use inside the loop
    # makes it wait.
    if DRAIN:
        acc = tl.inline_asm_elementwise(
            "mov.f32 $0, $1;", "=f,f", [acc], dtype=tl.float32, is_pure=True, pack=1
        )
    return acc


@triton.jit
@no_type_check
def _linear_kernel(
    X, W, RESIDUAL, OUT, eps, rows, N,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, REAL: tl.constexpr, BD: tl.constexpr,
    SLICES: tl.constexpr, EVEN: tl.constexpr, NORM: tl.constexpr, SWIGLU: tl.constexpr,
    ADD: tl.constexpr, PREC: tl.constexpr, STAGES: tl.constexpr, FIRST: tl.constexpr,
    AHEAD: tl.constexpr, PIECES: tl.constexpr, DRAIN: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """REAL of BN outputs for all rows; with SWIGLU also those that gate them, N rows further on.

    With several slices the inputs are taken side by side, one slice a warp: where few outputs make
    few tiles, one warp that walked along all inputs would take longer than the weights. (SLICES = 1
    is a case of its own below, since Hopper's wide matrix instruction wants two axes.) The weights
    of the FIRST round (0 or 1) wait in registers and are used last.
    """
    # Rows go along x, as they are data, and mostly one tile: outputs then follow one another.
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    b = tl.arange(0, BN)
    n = tl.program_id(1) * REAL + b
    mine = (b < REAL) & (n < N)
    rows_at = X + m.to(tl.int64) * D
    # Outputs beyond the last are taken for the last one, and not stored.
    outs_at = W + tl.minimum(n, N - 1).to(tl.int64) * D
    if SLICES == 1:
        d = tl.arange(0, BD)
        x_at, w_at = rows_at[None, :] + d[:, None], outs_at[:, None] + d[None, :]
        real_m, real_n = (m < rows)[None, :], mine[:, None]
        acc = tl.zeros([BN, BM], tl.float32)
        other = tl.zeros([BN, BM], tl.float32)
        square = tl.zeros([BD, BM], tl.float32)
    else:
        d = tl.arange(0, SLICES)[:, None] * BD + tl.arange(0, BD)[None, :]
        x_at, w_at = rows_at[None, None, :] + d[:, :, None], outs_at[None, :, None] + d[:, None, :]
        real_m, real_n = (m < rows)[None, None, :], mine[None, :, None]
        acc = tl.zeros([SLICES, BN, BM], tl.float32)
        other = tl.zeros([SLICES, BN, BM], tl.float32)
        square = tl.zeros([SLICES, BD, BM], tl.float32)
    ROUND: tl.constexpr = SLICES * BD
    ALL: tl.constexpr = REAL == BN
    gap = N.to(tl.int64) * D
    if FIRST:
        w_first = _weights(w_at, real_n, real_n, ALL, True)
        if SWIGLU:
            v_first = _weights(w_at + gap, real_n, real_n, ALL, True)
    if AHEAD > 0:
        ahead = tl.arange(0, PIECES)[None, :] * (AHEAD // PIECES) + FIRST * ROUND
        fetch_to_l2(outs_at[:, None] + ahead, AHEAD // PIECES, PDL)
        if SWIGLU:
            fetch_to_l2(outs_at[:, None] + gap + ahead, AHEAD // PIECES, PDL)
    wait_for_last(PDL)
    let_next_start(PDL)
    at = m[None, :].to(tl.int64) * N + n[:, None]
    mask = (m < rows)[None, :] & mine[:, None]
    if ADD:
        residual = tl.load(RESIDUAL + at, mask=mask, other=0.0).to(tl.float32)
    if FIRST:
        x_first = tl.load(x_at, mask=real_m, other=0.0)
    for start in tl.range(FIRST * ROUND, D, ROUND, num_stages=STAGES):
        w_in = d[None, :] < D - start if SLICES == 1 else d[:, None, :] < D - start
        x_in = d[:, None] < D - start if SLICES == 1 else d[:, :, None] < D - start
        x = tl.load(x_at + start, mask=real_m if EVEN else real_m & x_in, other=0.0)
        w = _weights(w_at + start, real_n, w_in, ALL, EVEN)
        if NORM:
            wide = x.to(tl.float32)
            square += wide * wide
        acc = tl.dot(w, x, acc, input_precision=PREC)
        if SWIGLU:
            v = _weights(w_at + gap + start, real_n, w_in, ALL, EVEN)
            other = _ended(tl.dot(v, x, other, input_precision=PREC), DRAIN)
        acc = _ended(acc, DRAIN)
    if FIRST:
        if NORM:
            wide = x_first.to(tl.float32)
            square += wide * wide
        acc = tl.dot(w_first, x_first, acc, input_precision=PREC)
        if SWIGLU:
            other = tl.dot(v_first, x_first, other, input_precision=PREC)
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
    if ADD:
        y += residual
    tl.store(OUT + at, y.to(OUT.dtype.element_ty), mask=mask)


@dataclass(frozen=True)
class _Tile:
    """How a product is divided.

    Attributes:
        rows: Rows of a program.
        outputs: Outputs of a program at most.
        inputs: Inputs of a slice in a round, if they have two bytes each.
        slices: Slices.
        stages: Stages of the pipeline of rounds.
        first: Whether the first round's weights are loaded before the wait.
        ahead: Inputs thereafter whose weights are asked for before the wait.
    """

    rows: int
    outputs: int
    inputs: int
    slices: int
    stages: int
    first: bool
    ahead: int


def _tile(outputs: int, rows: int) -> _Tile:
    """The best on an H200, at 8 and at 64 rows."""
    if rows <= 16:
        narrow = _Tile(16, 16, 128, slices=4, stages=4, first=True, ahead=512)
        wide = _Tile(16, 64, 128, slices=1, stages=4, first=False, ahead=128)
    else:
        side = 32 if rows <= 32 else 64
        narrow = _Tile(side, 16, 64, slices=4, stages=5, first=False, ahead=0)
        wide = _Tile(side, 64, 128, slices=1, stages=4, first=False, ahead=0)
    return narrow if outputs < 4096 else wide


@cache
def _processors(device: torch.device) -> int:
    if device.type != "cuda":
        return 132  # as if it were an H200, so that the interpreter sees its tiles
    return torch.cuda.get_device_properties(device).multi_processor_count


def few_rows_linear(
    x: Float[Tensor, "b d"],
    weight: Float[Tensor, "n d"],
    out: Float[Tensor, "b m"],
    *,
    eps: float | None = None,
    swiglu: bool = False,
    residual: Float[Tensor, "b m"] | None = None,
    settled: bool = False,
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
        settled: Whether the matrix was there before the last kernel that was launched the usual
            way: its first weights may then be loaded before the kernel ahead has ended.

    Returns:
        `out`.
    """
    rows, width = x.shape
    outputs = weight.shape[0] // 2 if swiglu else weight.shape[0]
    tile, early = _tile(outputs, rows), settled and overlaps(x.device)
    inputs = tile.inputs * 2 // x.element_size()
    # Where wide tiles are fewer than processors, smaller ones give each processor one.
    share = 4 * triton.cdiv(outputs, 4 * _processors(x.device))
    real = min(tile.outputs, share) if tile.slices == 1 else tile.outputs
    even, begun = width % (tile.slices * inputs) == 0, tile.slices * inputs * tile.first
    # What is fetched to L2 has to begin and end at 16 bytes.
    fetches = early and even and begun + tile.ahead <= width and weight.data_ptr() % 16 == 0
    _linear_kernel[(triton.cdiv(rows, tile.rows), triton.cdiv(outputs, real))](
        x, weight, x if residual is None else residual, out, eps or 0.0, rows, outputs,
        D=width, BM=tile.rows, BN=tile.outputs, REAL=real, BD=inputs, SLICES=tile.slices,
        EVEN=even, NORM=eps is not None, SWIGLU=swiglu, ADD=residual is not None,
        PREC="ieee" if x.dtype == torch.float32 else "tf32", STAGES=tile.stages,
        FIRST=int(tile.first and even),
        # A piece for each of 128 threads, which would all ask for the same one otherwise.
        AHEAD=tile.ahead if fetches else 0, PIECES=128 // tile.outputs,
        DRAIN=tile.slices == 1 and not is_interpreting(), PDL=early,
        num_warps=4, num_stages=tile.stages, launch_pdl=early,
    )  # fmt: skip
    return out
