"""RMS norm of what heads read out, times a gate, as one operator of torch each way.

`y = norm(o) * weight * act(gate)` with act a silu (Gated DeltaNet, RetNet, GLA) or a sigmoid
(KDA), computed in float32. Axes: h heads, v value width.
"""

from typing import Any, Literal

import torch
from torch import Tensor

from lt2theory.ops.fused.launching import launch
from lt2theory.ops.fused.norm import plain_rms_norm
from lt2theory.ops.fused.rows import (
    STEPS,
    can_fuse_rows,
    differentiate_again,
    num_rows,
    programs,
    tile_of,
)

Activation = Literal["silu", "sigmoid"]
"""What a gate passes through."""


def gated_rms_norm(
    o: Tensor, gate: Tensor, weight: Tensor, eps: float, dtype: torch.dtype, activation: Activation
) -> Tensor:
    """Normalise every head and open its gate, by a kernel where it serves.

    Args:
        o: What the heads read out `[.. h v]`.
        gate: Before its activation `[.. h*v]`.
        weight: `[v]`, the same for all heads.
        eps: Added to the mean square.
        dtype: Of the result.
        activation: What the gate passes through.

    Returns:
        `[.. h*v]`.
    """
    silu = activation == "silu"
    if can_fuse_rows(o):
        y: Tensor = fused_gated_rms_norm(o, gate, weight, eps, dtype, silu)
        return y
    return plain_gated_rms_norm(o, gate, weight, eps, dtype, silu)


def plain_gated_rms_norm(
    o: Tensor, gate: Tensor, weight: Tensor, eps: float, dtype: torch.dtype, silu: bool
) -> Tensor:
    """`fused_gated_rms_norm` in plain torch, in at least float32.

    Args:
        o: What the heads read out `[.. h v]`.
        gate: Before its activation `[.. h*v]`.
        weight: `[v]`.
        eps: Added to the mean square.
        dtype: Of the result.
        silu: Whether the activation is a silu; a sigmoid otherwise.

    Returns:
        `[.. h*v]`.
    """
    wide = gate.to(torch.promote_types(gate.dtype, torch.float32)).view(o.shape)
    opened = torch.nn.functional.silu(wide) if silu else torch.sigmoid(wide)
    return (plain_rms_norm(o, weight, eps, o.dtype) * opened).flatten(-2).to(dtype)


# The annotations below are read by torch as the schemas of the operators.


@torch.library.custom_op("lt2theory::gated_rms_norm", mutates_args=())
def fused_gated_rms_norm(
    o: Tensor, gate: Tensor, weight: Tensor, eps: float, dtype: torch.dtype, silu: bool
) -> Tensor:
    """`plain_gated_rms_norm` by a kernel.

    Args:
        o: What the heads read out `[.. h v]`.
        gate: Before its activation `[.. h*v]`.
        weight: `[v]`.
        eps: Added to the mean square.
        dtype: Of the result.
        silu: Whether the activation is a silu; a sigmoid otherwise.

    Returns:
        `[.. h*v]`.
    """
    from lt2theory.ops.fused.triton_norm import gated_norm_kernel

    out: Tensor = _shapes(o, gate, weight, eps, dtype, silu)
    width, rows = o.shape[-1], num_rows(o)
    columns, tile = tile_of(width)
    launch(
        gated_norm_kernel, (programs(rows, tile),),
        o.contiguous(), gate.contiguous(), weight.contiguous(), out, rows, eps,
        D=width, BD=columns, BR=tile, SILU=silu, writes=(out,),
    )  # fmt: skip
    return out


@torch.library.custom_op("lt2theory::gated_rms_norm_backward", mutates_args=())
def gated_rms_norm_backward(
    grad: Tensor, o: Tensor, gate: Tensor, weight: Tensor, eps: float, silu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `fused_gated_rms_norm`.

    Args:
        grad: Gradient of the result `[.. h*v]`.
        o: As in `fused_gated_rms_norm`.
        gate: As in `fused_gated_rms_norm`.
        weight: As in `fused_gated_rms_norm`.
        eps: As in `fused_gated_rms_norm`.
        silu: As in `fused_gated_rms_norm`.

    Returns:
        Gradients of o, the gate and the weight, in their dtypes.
    """
    from lt2theory.ops.fused.triton_norm import gated_norm_backward_kernel

    d_o, d_gate, d_weight = _backward_shapes(grad, o, gate, weight, eps, silu)
    width, rows = o.shape[-1], num_rows(o)
    columns, tile = tile_of(width)
    parts = o.new_empty(programs(rows, tile, STEPS), width, dtype=torch.float32)
    launch(
        gated_norm_backward_kernel, (len(parts),),
        grad.contiguous(), o.contiguous(), gate.contiguous(), weight.contiguous(),
        d_o, d_gate, parts, rows, eps, D=width, BD=columns, BR=tile, STEPS=STEPS, SILU=silu,
        writes=(d_o, d_gate, parts),
    )  # fmt: skip
    return d_o, d_gate, parts.sum(0).to(d_weight.dtype)


@fused_gated_rms_norm.register_fake
def _shapes(
    o: Tensor, gate: Tensor, weight: Tensor, eps: float, dtype: torch.dtype, silu: bool
) -> Tensor:
    return o.new_empty(gate.shape, dtype=dtype)


@gated_rms_norm_backward.register_fake
def _backward_shapes(
    grad: Tensor, o: Tensor, gate: Tensor, weight: Tensor, eps: float, silu: bool
) -> tuple[Tensor, Tensor, Tensor]:
    return o.new_empty(o.shape), gate.new_empty(gate.shape), weight.new_empty(weight.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    o, gate, weight, ctx.eps, ctx.dtype, ctx.silu = inputs
    ctx.save_for_backward(o, gate, weight)


def _differentiate(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    saved = ctx.saved_tensors
    if torch.is_grad_enabled():
        gradients = differentiate_again(
            lambda o, gate, weight: plain_gated_rms_norm(
                o, gate, weight, ctx.eps, ctx.dtype, ctx.silu
            ),
            saved, ctx.needs_input_grad[:3], (grad,),
        )  # fmt: skip
    else:
        gradients = list(gated_rms_norm_backward(grad, *saved, ctx.eps, ctx.silu))
    return (*gradients, None, None, None)


fused_gated_rms_norm.register_autograd(_differentiate, setup_context=_save)
