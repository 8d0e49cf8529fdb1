"""A sum and its RMS norm as one operator of torch: the residual stream, and what a block reads."""

from typing import Any

import torch
from torch import Tensor

from lt2theory.ops.fused.norm import launch_norm, plain_rms_norm, rms_norm_backward
from lt2theory.ops.fused.rows import can_fuse_rows, differentiate_again


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
    launch_norm(h, change, weight, total, out, eps, adds=True)
    return total, out


@fused_add_rms_norm.register_fake
def _sum_shapes(
    h: Tensor, change: Tensor, weight: Tensor, eps: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    wider = torch.promote_types(h.dtype, change.dtype)
    return h.new_empty(h.shape, dtype=wider), h.new_empty(h.shape, dtype=dtype)


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


fused_add_rms_norm.register_autograd(_differentiate_sum, setup_context=_save_sum)
