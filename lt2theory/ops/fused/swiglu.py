"""The gate of a SwiGLU, `silu(a) * b` (Shazeer, arXiv 2002.05202), as one operator each way.

a and b lie side by side, as one product writes them. Computed in float32 and rounded once.
Axes: f hidden width.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.ops.fused.launching import launch
from lt2theory.ops.fused.rows import differentiate_again, num_rows, programs

_ROWS = 16
_COLUMNS = 128


def plain_swiglu(z: Tensor) -> Tensor:
    """`fused_swiglu` in plain torch, in the dtype of z.

    Args:
        z: a and b `[.. 2f]`.

    Returns:
        `[.. f]`.
    """
    a, b = z.chunk(2, -1)
    return F.silu(a) * b


# The annotations below are read by torch as the schemas of the operators.


@torch.library.custom_op("lt2theory::swiglu", mutates_args=())
def fused_swiglu(z: Tensor) -> Tensor:
    """`silu(a) * b` by a kernel.

    Args:
        z: a and b `[.. 2f]`.

    Returns:
        `[.. f]` in the dtype of z.
    """
    from lt2theory.ops.fused.triton_pointwise import swiglu_kernel

    out: Tensor = _shapes(z)
    launch(
        swiglu_kernel, _grid(out),
        z.contiguous(), out, num_rows(out),
        D=out.shape[-1], BD=_COLUMNS, BR=_ROWS, writes=(out,),
    )  # fmt: skip
    return out


@torch.library.custom_op("lt2theory::swiglu_backward", mutates_args=())
def swiglu_backward(grad: Tensor, z: Tensor) -> Tensor:
    """Gradient of `fused_swiglu`.

    Args:
        grad: Gradient of the result `[.. f]`.
        z: As in `fused_swiglu`.

    Returns:
        Gradient of z, in its dtype.
    """
    from lt2theory.ops.fused.triton_pointwise import swiglu_backward_kernel

    d_z: Tensor = _backward_shapes(grad, z)
    launch(
        swiglu_backward_kernel, _grid(grad),
        grad.contiguous(), z.contiguous(), d_z, num_rows(grad),
        D=grad.shape[-1], BD=_COLUMNS, BR=_ROWS, writes=(d_z,),
    )  # fmt: skip
    return d_z


@fused_swiglu.register_fake
def _shapes(z: Tensor) -> Tensor:
    return z.new_empty(*z.shape[:-1], z.shape[-1] // 2)


@swiglu_backward.register_fake
def _backward_shapes(grad: Tensor, z: Tensor) -> Tensor:
    return z.new_empty(z.shape)


def _save(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _differentiate(ctx: Any, grad: Tensor) -> Tensor | None:
    if torch.is_grad_enabled():
        return differentiate_again(plain_swiglu, ctx.saved_tensors, (True,), (grad,))[0]
    d_z: Tensor = swiglu_backward(grad, *ctx.saved_tensors)
    return d_z


fused_swiglu.register_autograd(_differentiate, setup_context=_save)


def _grid(out: Tensor) -> tuple[int, int]:
    """Programs: one a tile of rows, and of columns."""
    return programs(num_rows(out), _ROWS), -(-out.shape[-1] // _COLUMNS)
