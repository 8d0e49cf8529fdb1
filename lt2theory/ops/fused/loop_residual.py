"""The residual of a loop, `h + rho * start` (LT2, section 3.1), as one operator each way.

Axes: d width. Computed in float32; the gradient of rho is summed in a fixed order.
"""

from typing import Any

import torch
from torch import Tensor

from lt2theory.ops.fused.launching import launch
from lt2theory.ops.fused.rows import (
    STEPS,
    can_fuse_rows,
    differentiate_again,
    num_rows,
    programs,
)

_ROWS = 16
_COLUMNS = 128


def loop_residual(h: Tensor, start: Tensor, rho: Tensor) -> Tensor:
    """`h + rho * start`, by a kernel where it serves.

    Args:
        h: Residual stream after the loop's blocks `[.. d]`.
        start: Residual stream before them.
        rho: `[d]`.

    Returns:
        `[.. d]`.
    """
    if can_fuse_rows(h) and h.dtype == start.dtype:
        y: Tensor = fused_loop_residual(h, start, rho)
        return y
    return plain_loop_residual(h, start, rho)


def plain_loop_residual(h: Tensor, start: Tensor, rho: Tensor) -> Tensor:
    """`fused_loop_residual` in plain torch.

    Args:
        h: `[.. d]`.
        start: `[.. d]`.
        rho: `[d]`.

    Returns:
        `[.. d]`.
    """
    return h + rho * start


# The annotations below are read by torch as the schemas of the operators.


@torch.library.custom_op("lt2theory::loop_residual", mutates_args=())
def fused_loop_residual(h: Tensor, start: Tensor, rho: Tensor) -> Tensor:
    """`h + rho * start` by a kernel.

    Args:
        h: `[.. d]`.
        start: `[.. d]`, in the dtype of h.
        rho: `[d]`.

    Returns:
        `[.. d]` in the wider dtype of h and rho.
    """
    from lt2theory.ops.fused.triton_pointwise import residual_kernel

    out: Tensor = _shapes(h, start, rho)
    rows, width = num_rows(h), h.shape[-1]
    launch(
        residual_kernel, (programs(rows, _ROWS), -(-width // _COLUMNS)),
        h.contiguous(), start.contiguous(), rho.contiguous(), out, rows,
        D=width, BD=_COLUMNS, BR=_ROWS, writes=(out,),
    )  # fmt: skip
    return out


@torch.library.custom_op("lt2theory::loop_residual_backward", mutates_args=())
def loop_residual_backward(grad: Tensor, start: Tensor, rho: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of `fused_loop_residual`; that of h is `grad` itself.

    Args:
        grad: Gradient of the result `[.. d]`.
        start: As in `fused_loop_residual`.
        rho: As in `fused_loop_residual`.

    Returns:
        Gradients of start and of rho, in their dtypes.
    """
    from lt2theory.ops.fused.triton_pointwise import residual_backward_kernel

    d_start, d_rho = _backward_shapes(grad, start, rho)
    rows, width = num_rows(start), start.shape[-1]
    grid = programs(rows, _ROWS, STEPS), -(-width // _COLUMNS)
    parts = start.new_empty(grid[0], width, dtype=torch.float32)
    launch(
        residual_backward_kernel, grid,
        grad.contiguous(), start.contiguous(), rho.contiguous(), d_start, parts, rows,
        D=width, BD=_COLUMNS, BR=_ROWS, STEPS=STEPS, writes=(d_start, parts),
    )  # fmt: skip
    return d_start, parts.sum(0).to(d_rho.dtype)


@fused_loop_residual.register_fake
def _shapes(h: Tensor, start: Tensor, rho: Tensor) -> Tensor:
    return h.new_empty(h.shape, dtype=torch.promote_types(h.dtype, rho.dtype))


@loop_residual_backward.register_fake
def _backward_shapes(grad: Tensor, start: Tensor, rho: Tensor) -> tuple[Tensor, Tensor]:
    return start.new_empty(start.shape), rho.new_empty(rho.shape)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
    h, start, rho = inputs
    ctx.dtype = h.dtype
    ctx.save_for_backward(start, rho)


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    start, rho = ctx.saved_tensors
    if torch.is_grad_enabled():
        again = differentiate_again(
            lambda start, rho: rho * start, (start, rho), ctx.needs_input_grad[1:], (grad,)
        )
        return (grad.to(ctx.dtype), *again)
    d_start, d_rho = loop_residual_backward(grad, start, rho)
    return grad.to(ctx.dtype), d_start, d_rho


fused_loop_residual.register_autograd(_differentiate, setup_context=_save)
