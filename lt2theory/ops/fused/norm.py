"""RMS norm as one operator of torch each way, alone or of a sum of two tensors.

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


def add_rms_norm(
    h: Tensor, change: Tensor, weight: Tensor, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """`h + change`, and its rows normalised, by a kernel where it serves.

    Args:
        h: Rows `[.. d]`.
        change: What is added, of the same shape.
        weight: `[d]`.
        eps: Added to the mean square.
        dtype: Of the normalised rows.

    Returns:
        The sum, in the wider dtype of both, and the normalised rows.
    """
    if can_fuse_rows(h) and torch.promote_types(h.dtype, change.dtype) in (h.dtype, change.dtype):
        total, y = fused_add_rms_norm(h, change, weight, eps, dtype)
        return total, y
    return plain_add_rms_norm(h, change, weight, eps, dtype)


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


def plain_add_rms_norm(
    h: Tensor, change: Tensor, weight: Tensor, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """`fused_add_rms_norm` in plain torch, in at least float32.

    Args:
        h: Rows `[.. d]`.
        change: What is added.
        weight: `[d]`.
        eps: Added to the mean square.
        dtype: Of the normalised rows.

    Returns:
        The sum, and the normalised rows.
    """
    total = h + change
    return total, plain_rms_norm(total, weight, eps, dtype)


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
    _forward(x, x, weight, x, out, eps, adds=False)
    return out


@torch.library.custom_op("lt2theory::add_rms_norm", mutates_args=())
def fused_add_rms_norm(
    h: Tensor, change: Tensor, weight: Tensor, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """`plain_add_rms_norm` by a kernel.

    Args:
        h: Rows `[.. d]`.
        change: What is added.
        weight: `[d]`.
        eps: Added to the mean square.
        dtype: Of the normalised rows.

    Returns:
        The sum, and the normalised rows.
    """
    h, change = h.contiguous(), change.contiguous()
    total, out = _sum_shapes(h, change, weight, eps, dtype)
    _forward(h, change, weight, total, out, eps, adds=True)
    return total, out


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


@fused_add_rms_norm.register_fake
def _sum_shapes(
    h: Tensor, change: Tensor, weight: Tensor, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    wider = torch.promote_types(h.dtype, change.dtype)
    return h.new_empty(h.shape, dtype=wider), h.new_empty(h.shape, dtype=dtype)


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


def _save_sum(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    h, change, weight, ctx.eps, ctx.dtype = inputs
    ctx.dtypes = h.dtype, change.dtype
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(output[0], weight)


def _differentiate_sum(
    ctx: Any, beside: Tensor | None, grad: Tensor | None
) -> tuple[Tensor | None, ...]:
    total, weight = ctx.saved_tensors
    first, second = ctx.dtypes
    if grad is None:
        d_h, d_change = (None if beside is None else beside.to(x) for x in ctx.dtypes)
        return d_h, d_change, None, None, None
    if torch.is_grad_enabled():
        d_x, d_weight = differentiate_again(
            lambda x, weight: plain_rms_norm(x, weight, ctx.eps, ctx.dtype),
            (total, weight), (True, ctx.needs_input_grad[2]), (grad,),
        )  # fmt: skip
        assert d_x is not None
        d_x = d_x if beside is None else d_x + beside
        return d_x.to(first), d_x.to(second), d_weight, None, None
    other = second if first == total.dtype else first
    d_x, copy, d_weight = rms_norm_backward(grad, beside, total, weight, ctx.eps, other)
    by_dtype = {other: copy, d_x.dtype: d_x}
    return by_dtype[first], by_dtype[second], d_weight, None, None


fused_rms_norm.register_autograd(_differentiate, setup_context=_save)
fused_add_rms_norm.register_autograd(_differentiate_sum, setup_context=_save_sum)


def _forward(
    x: Tensor, change: Tensor, weight: Tensor, total: Tensor, out: Tensor, eps: float, *, adds: bool
) -> None:
    """Launch the kernel of both forward passes."""
    from lt2theory.ops.fused.triton_norm import norm_kernel

    width, rows = x.shape[-1], num_rows(x)
    columns, tile = tile_of(width)
    launch(
        norm_kernel, (programs(rows, tile),),
        x, change, weight.contiguous(), total, out, rows, eps,
        D=width, BD=columns, BR=tile, ADDS=adds, writes=(total, out) if adds else (out,),
    )  # fmt: skip
