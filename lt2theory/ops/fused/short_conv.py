"""What a delta-rule mixer does between its projections and its op, as one operator of torch.

Short causal convolution, silu, and unit length of queries and keys: in plain torch some twenty
passes over memory forward and backward, here four. Computed and returned in float32; sums have a
fixed order. Axes: b batch, t time, f factors a token, h heads, k and v widths, c channels, w taps.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

_STRETCH = 64
_CHANNELS = 64


def can_fuse(x: Float[Tensor, "*rest"]) -> bool:
    """Whether the kernels serve an input where it stands.

    Args:
        x: What goes into the projections.

    Returns:
        Whether it is on a CUDA device, not float64, and under no transform of torch.func.
    """
    if not x.is_cuda or x.dtype == torch.float64:
        return False
    # While torch compiles it cannot ask for transforms, and it refuses them itself.
    return torch.compiler.is_compiling() or torch._C._functorch.peek_interpreter_stack() is None


# The annotations below are read by torch as the schemas of the operators.


@torch.library.custom_op("lt2theory::delta_inputs", mutates_args=())
def delta_inputs(z: Tensor, taps: Tensor, sizes: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Unit queries and keys, and values, from their projections side by side.

    `silu(sum_j taps[:, j] z[t - w + 1 + j])`; what lies before the first token is zero. Queries and
    keys are divided by `sqrt(|x|^2 + 1e-6)`.

    Args:
        z: Projections `[b t c]` of q, the keys of all factors in turn, and their values.
        taps: `[c w]`, the last one for the token itself.
        sizes: Heads h, factors a token f, key width k and value width v; c is h (k + f k + f v).

    Returns:
        `[b t h k]`, `[b t f h k]`, `[b t f h v]` in float32.
    """
    from lt2theory.ops.fused.triton_short_conv import forward_kernel

    z, taps = z.contiguous(), taps.contiguous()
    outputs = _outputs(z, sizes)
    for out, (offset, groups, width, unit) in zip(outputs, _regions(sizes), strict=True):
        forward_kernel[_grid(z, groups)](
            z, taps, out, z.shape[1], z.shape[2], offset, groups,
            D=width, BD=_tile(width), BT=_STRETCH, W=taps.shape[1], UNIT=unit,
        )  # fmt: skip
    return outputs


@torch.library.custom_op("lt2theory::delta_inputs_backward", mutates_args=())
def delta_inputs_backward(
    grads: list[Tensor], z: Tensor, taps: Tensor, sizes: list[int]
) -> tuple[Tensor, Tensor]:
    """Gradients of `delta_inputs`.

    Args:
        grads: Gradients of its three results.
        z: As in `delta_inputs`.
        taps: As in `delta_inputs`.
        sizes: As in `delta_inputs`.

    Returns:
        Gradients of z and of the taps, in their dtypes.
    """
    from lt2theory.ops.fused.triton_short_conv import before_silu_kernel, inputs_kernel

    z, taps = z.contiguous(), taps.contiguous()
    batch, length, channels = z.shape
    width = taps.shape[1]
    before = torch.empty_like(z, dtype=torch.float32)
    stretches = batch * -(-length // _STRETCH)
    parts = z.new_empty(stretches, width, channels, dtype=torch.float32)
    for grad, (offset, groups, size, unit) in zip(grads, _regions(sizes), strict=True):
        before_silu_kernel[_grid(z, groups)](
            z, taps, grad.contiguous(), before, parts, length, channels, offset, groups,
            D=size, BD=_tile(size), BT=_STRETCH, W=width, UNIT=unit,
        )  # fmt: skip
    d_z = torch.empty_like(z)
    inputs_kernel[stretches, -(-channels // _CHANNELS)](
        before, taps, d_z, length, channels, BC=_CHANNELS, BT=_STRETCH, W=width
    )
    return d_z, parts.sum(0).t().contiguous().to(taps.dtype)


@delta_inputs.register_fake
def _shapes(z: Tensor, taps: Tensor, sizes: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    return _outputs(z, sizes)


@delta_inputs_backward.register_fake
def _backward_shapes(
    grads: list[Tensor], z: Tensor, taps: Tensor, sizes: list[int]
) -> tuple[Tensor, Tensor]:
    shape = torch.contiguous_format
    return torch.empty_like(z, memory_format=shape), torch.empty_like(taps, memory_format=shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    z, taps, ctx.sizes = inputs
    ctx.save_for_backward(z, taps)


def _differentiate(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    if torch.is_grad_enabled():
        raise ValueError(
            "short convolution: its kernels have first derivatives only; ask for backend 'chunked' "
            "where create_graph is needed"
        )
    z, taps = ctx.saved_tensors
    d_z, d_taps = delta_inputs_backward(list(grads), z, taps, ctx.sizes)
    return d_z, d_taps, None


delta_inputs.register_autograd(_differentiate, setup_context=_save)


def _regions(sizes: list[int]) -> list[tuple[int, int, int, bool]]:
    """Offset, heads, width, and whether they get unit length: of queries, keys and values."""
    heads, factors, key_width, value_width = sizes
    keys, all_keys = heads * key_width, factors * heads * key_width
    return [
        (0, heads, key_width, True),
        (keys, factors * heads, key_width, True),
        (keys + all_keys, factors * heads, value_width, False),
    ]


def _outputs(z: Tensor, sizes: list[int]) -> tuple[Tensor, Tensor, Tensor]:
    """Results, not yet written."""
    heads, factors, key_width, value_width = sizes
    batch, length, _ = z.shape
    wide = torch.float32
    return (
        z.new_empty(batch, length, heads, key_width, dtype=wide),
        z.new_empty(batch, length, factors, heads, key_width, dtype=wide),
        z.new_empty(batch, length, factors, heads, value_width, dtype=wide),
    )


def _grid(z: Tensor, groups: int) -> tuple[int, int]:
    """Programs: one a stretch of a sequence, and a head."""
    return z.shape[0] * -(-z.shape[1] // _STRETCH), groups


def _tile(width: int) -> int:
    """Width of a tile that holds a head."""
    return max(16, 1 << (width - 1).bit_length())
