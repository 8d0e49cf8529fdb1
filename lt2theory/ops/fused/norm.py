"""RMS norm as one operator of torch each way.

`y = x / sqrt(mean(x^2) + eps) * weight` (Zhang and Sennrich, arXiv 1910.07467), computed in
float32. In plain torch under autocast a norm is four passes over memory forward (widen, norm, and
a rounding for every product that reads it) and more backward.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.ops.fused.launching import launch
from lt2theory.ops.fused.rows import (
    STEPS,
    can_fuse_rows,
    differentiate_again,
    num_rows,
    programs,
    tile_of,
)


def rms_norm(x: Tensor, weight: Tensor, eps: float, dtype: torch.dtype | None = None) -> Tensor:
    """Normalise rows, by a kernel where it serves.

    Args:
        x: Rows `[.. d]`.
        weight: `[d]`.
        eps: Added to the mean square.
        dtype: Of the result; None is that of x.

    Returns:
        `[.. d]`.
    """
    dtype = x.dtype if dtype is None else dtype
    if can_fuse_rows(x):
        y: Tensor = fused_rms_norm(x, weight, eps, dtype)
        return y
    return plain_rms_norm(x, weight, eps, dtype)


def plain_rms_norm(x: Tensor, weight: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
    """`fused_rms_norm` in plain torch, in at least float32.

    Args:
        x: Rows `[.. d]`.
        weight: `[d]`.
        eps: Added to the mean square.
        dtype: Of the result.

    Returns:
        `[.. d]`.
    """
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return F.rms_norm(wide, weight.shape, weight.to(wide.dtype), eps).to(dtype)


# The annotations below are read by torch as the schemas of the operators.


@torch.library.custom_op("lt2theory::rms_norm", mutates_args=())
def fused_rms_norm(x: Tensor, weight: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
    """`plain_rms_norm` by a kernel.

    Args:
        x: Rows `[.. d]`.
        weight: `[d]`.
        eps: Added to the mean square.
        dtype: Of the result.

    Returns:
        `[.. d]`.
    """
    x = x.contiguous()
    out = torch.empty_like(x, dtype=dtype)
    launch_norm(x, x, weight, x, out, eps, adds=False)
    return out


@torch.library.custom_op("lt2theory::rms_norm_backward", mutates_args=())
def rms_norm_backward(
    grad: Tensor,
    beside: Tensor | None,
    x: Tensor,
    weight: Tensor,
    eps: float,
    other: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of a norm and of what it normalised.

    Args:
        grad: Gradient of the normalised rows.
        beside: Gradient that reaches x on another way, or None.
        x: What was normalised `[.. d]`.
        weight: `[d]`.
        eps: Added to the mean square.
        other: Dtype of a second copy of the gradient of x.

    Returns:
        The gradient of x in its dtype, the copy (empty where it would be the same), and the
        gradient of the weight.
    """
    from lt2theory.ops.fused.triton_norm import norm_backward_kernel

    grad, x, weight = grad.contiguous(), x.contiguous(), weight.contiguous()
    width, rows = x.shape[-1], num_rows(x)
    columns, tile = tile_of(width)
    d_x, copy, _ = _backward_shapes(grad, beside, x, weight, eps, other)
    parts = x.new_empty(programs(rows, tile, STEPS), width, dtype=torch.float32)
    launch(
        norm_backward_kernel, (len(parts),),
        grad, grad if beside is None else beside.contiguous(), x, weight, d_x, copy, parts,
        rows, eps, D=width, BD=columns, BR=tile, STEPS=STEPS,
        BESIDES=beside is not None, TWO=copy.numel() > 0,
        writes=(d_x, copy, parts),
    )  # fmt: skip
    return d_x, copy, parts.sum(0).to(weight.dtype)


@fused_rms_norm.register_fake
def _shapes(x: Tensor, weight: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
    return torch.empty_like(x, dtype=dtype, memory_format=torch.contiguous_format)


@rms_norm_backward.register_fake
def _backward_shapes(
    grad: Tensor,
    beside: Tensor | None,
    x: Tensor,
    weight: Tensor,
    eps: float,
    other: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    copy = x.new_empty(x.shape if other != x.dtype else (0,), dtype=other)
    return x.new_empty(x.shape), copy, weight.new_empty(weight.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, ctx.eps, ctx.dtype = inputs
    ctx.save_for_backward(x, weight)


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, weight = ctx.saved_tensors
    if torch.is_grad_enabled():
        needed = ctx.needs_input_grad[:2]
        again = differentiate_again(
            lambda x, weight: plain_rms_norm(x, weight, ctx.eps, ctx.dtype),
            (x, weight), needed, (grad,),
        )  # fmt: skip
        return (*again, None, None)
    d_x, _, d_weight = rms_norm_backward(grad, None, x, weight, ctx.eps, x.dtype)
    return d_x, d_weight, None, None


fused_rms_norm.register_autograd(_differentiate, setup_context=_save)


def launch_norm(
    x: Tensor, change: Tensor, weight: Tensor, total: Tensor, out: Tensor, eps: float, *, adds: bool
) -> None:
    """Launch the kernel of both forward passes, of rows and of a sum.

    Args:
        x: Rows `[.. d]`, contiguous.
        change: What is added to them.
        weight: `[d]`.
        total: Where the sum is written.
        out: Where the normalised rows are written.
        eps: Added to the mean square.
        adds: Whether there is a sum; `change` and `total` are not touched otherwise.
    """
    from lt2theory.ops.fused.triton_norm import norm_kernel

    width, rows = x.shape[-1], num_rows(x)
    columns, tile = tile_of(width)
    launch(
        norm_kernel, (programs(rows, tile),),
        x, change, weight.contiguous(), total, out, rows, eps,
        D=width, BD=columns, BR=tile, ADDS=adds, writes=(total, out) if adds else (out,),
    )  # fmt: skip
