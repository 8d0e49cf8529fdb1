"""What a delta-rule mixer does between its projections and its op, as one operator of torch.

Short causal convolution, silu, unit length of queries and keys, and the gates: in plain torch some
thirty passes over memory forward and backward, here five. Computed and returned in float32; sums
have a fixed order. Axes: b batch, t time, f factors a token, h heads, k and v widths, c channels of
the convolution, w taps, p columns of the projections.
"""

from typing import Any

import torch
from torch import Tensor

from lt2theory.ops.fused.launching import launch
from lt2theory.ops.fused.rows import STEPS, programs

_STRETCH = 64  # tokens of a program, fewer of wide heads
_NUMBERS = 4096  # numbers of a program: 32 a thread; with twice as many, registers spill
_CHANNELS = 64
_ALIGNED = 8
_TILE = 1024  # numbers of a tile of the gates


def padding(columns: int) -> int:
    """Columns to put behind those of the projections, for rows that start on 16 bytes.

    Args:
        columns: Columns of the projections.

    Returns:
        0 to 7.
    """
    return -columns % _ALIGNED


# The annotations below are read by torch as the schemas of the operators.


@torch.library.custom_op("lt2theory::delta_inputs", mutates_args=())
def delta_inputs(
    z: Tensor,
    taps: Tensor,
    log_rate: Tensor | None,
    bias: Tensor | None,
    sizes: list[int],
    segments: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Unit queries and keys, values, beta and log decay, from their projections side by side.

    `x = silu(sum_j taps[:, j] z[t - w + 1 + j])`; what lies before the first token is zero. Queries
    and keys are divided by `sqrt(|x|^2 + 1e-6)`. `beta = range * sigmoid(z)` and
    `log alpha = -exp(log_rate) softplus(z + bias)`.

    Args:
        z: Projections `[b t p]` of q, the keys of all factors in turn, their values and betas, one
            decay a head where there is `log_rate`, and any padding.
        taps: `[c w]`, the last one for the token itself.
        log_rate: `[h]`, or None for no decay.
        bias: `[h]`, or None for no decay.
        sizes: Heads h, factors a token f, key width k, value width v, and the upper end of beta; c
            is h (k + f k + f v).
        segments: Segment of each token `[b t]`, int64; a tap that reaches into another one reads
            zero. None: one unbroken stream.

    Returns:
        q `[b t h k]`, k `[b t f h k]`, v `[b t f h v]`, beta `[b t f h]` and the log decay
        `[b t f h]`, zero after a token's first factor (empty without one), in float32.
    """
    from lt2theory.ops.fused.triton_gates import gates_kernel
    from lt2theory.ops.fused.triton_short_conv import forward_kernel

    z, taps = z.contiguous(), taps.contiguous()
    q, k, v, beta, decay = _outputs(z, log_rate, sizes)
    launch(
        forward_kernel, _grid(z, sizes),
        z, taps, _given(segments, z), q, k, v, z.shape[1], writes=(q, k, v),
        **_layout(z, taps, sizes), PACKED=segments is not None,
    )  # fmt: skip
    rows, columns, tile = _tile_of_gates(z, sizes)
    launch(
        gates_kernel, (programs(rows, tile),),
        z, _given(log_rate, z), _given(bias, z), beta, decay, rows, float(sizes[4]),
        BETAS=sizes[0] * sizes[1], DECAYS=0 if log_rate is None else sizes[0],
        FIRST=taps.shape[0], STRIDE=z.shape[2], BC=columns, BR=tile,
        writes=(beta, decay),
    )  # fmt: skip
    return q, k, v, beta, decay


@torch.library.custom_op("lt2theory::delta_inputs_backward", mutates_args=())
def delta_inputs_backward(
    grads: list[Tensor],
    z: Tensor,
    taps: Tensor,
    log_rate: Tensor | None,
    bias: Tensor | None,
    segments: Tensor | None,
    *,
    sizes: list[int],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of `delta_inputs`.

    Args:
        grads: Gradients of its five results.
        z: As in `delta_inputs`.
        taps: As in `delta_inputs`.
        log_rate: As in `delta_inputs`.
        bias: As in `delta_inputs`.
        segments: As in `delta_inputs`.
        sizes: As in `delta_inputs`.

    Returns:
        Gradients of z, the taps, `log_rate` and `bias` in their dtypes, empty where there is none.
    """
    from lt2theory.ops.fused.triton_gates import gates_backward_kernel
    from lt2theory.ops.fused.triton_short_conv import before_silu_kernel, inputs_kernel

    z, taps = z.contiguous(), taps.contiguous()
    d_q, d_k, d_v, d_beta, d_decay = (grad.contiguous() for grad in grads)
    length, (channels, width) = z.shape[1], taps.shape
    grid = _grid(z, sizes)
    before = z.new_empty(*z.shape[:2], channels, dtype=torch.float32)
    parts = z.new_empty(grid[0], width, channels, dtype=torch.float32)
    launch(
        before_silu_kernel, grid,
        z, taps, _given(segments, z), d_q, d_k, d_v, before, parts, length,
        writes=(before, parts), **_layout(z, taps, sizes), PACKED=segments is not None,
    )  # fmt: skip
    d_z = torch.empty_like(z)
    launch(
        inputs_kernel, (grid[0], -(-channels // _CHANNELS)),
        before, taps, _given(segments, z), d_z, length, CHANNELS=channels, STRIDE=z.shape[2],
        BC=_CHANNELS, BT=_tile(sizes)[0], W=width, PACKED=segments is not None, writes=(d_z,),
    )  # fmt: skip
    rows, columns, tile = _tile_of_gates(z, sizes)
    decays = 0 if log_rate is None else sizes[0]
    gates = z.new_empty(programs(rows, tile, STEPS), 2, decays, dtype=torch.float32)
    launch(
        gates_backward_kernel, (len(gates),),
        d_beta, d_decay, z, _given(log_rate, z), _given(bias, z), d_z, gates, rows, float(sizes[4]),
        BETAS=sizes[0] * sizes[1], DECAYS=decays, FIRST=channels, STRIDE=z.shape[2],
        BC=columns, BR=tile, STEPS=STEPS, writes=(gates,),
    )  # fmt: skip
    d_taps = parts.sum(0).t().contiguous().to(taps.dtype)
    d_rate, d_bias = (
        z.new_empty(0) if x is None else d.to(x.dtype, copy=True)
        for x, d in zip((log_rate, bias), gates.sum(0), strict=True)
    )
    return d_z, d_taps, d_rate, d_bias


@delta_inputs.register_fake
def _shapes(
    z: Tensor,
    taps: Tensor,
    log_rate: Tensor | None,
    bias: Tensor | None,
    sizes: list[int],
    segments: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    return _outputs(z, log_rate, sizes)


@delta_inputs_backward.register_fake
def _backward_shapes(
    grads: list[Tensor],
    z: Tensor,
    taps: Tensor,
    log_rate: Tensor | None,
    bias: Tensor | None,
    segments: Tensor | None,
    *,
    sizes: list[int],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    d_rate, d_bias = (
        z.new_empty(0) if x is None else torch.empty_like(x) for x in (log_rate, bias)
    )
    return z.new_empty(z.shape), taps.new_empty(taps.shape), d_rate, d_bias


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, ctx.sizes, segments = inputs
    ctx.save_for_backward(*tensors, segments)


def _differentiate(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
    if torch.is_grad_enabled():
        raise ValueError(
            "short convolution: its kernels have first derivatives only; ask for backend 'chunked' "
            "where create_graph is needed"
        )
    *saved, segments = ctx.saved_tensors
    found = delta_inputs_backward(list(grads), *saved, segments, sizes=ctx.sizes)
    given = (None if x is None else d for x, d in zip(saved, found, strict=True))
    return (*given, None, None)


delta_inputs.register_autograd(_differentiate, setup_context=_save)


def _outputs(
    z: Tensor, log_rate: Tensor | None, sizes: list[int]
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Results, not yet written."""
    heads, factors, key_width, value_width, _ = sizes
    batch, length, _ = z.shape
    shapes = (
        (batch, length, heads, key_width),
        (batch, length, factors, heads, key_width),
        (batch, length, factors, heads, value_width),
        (batch, length, factors, heads),
        (0,) if log_rate is None else (batch, length, factors, heads),
    )
    q, k, v, beta, decay = (z.new_empty(shape, dtype=torch.float32) for shape in shapes)
    return q, k, v, beta, decay


def _layout(z: Tensor, taps: Tensor, sizes: list[int]) -> dict[str, int]:
    """What the kernels of the convolution are compiled for."""
    heads, factors, key_width, value_width, _ = sizes
    stretch, channels = _tile(sizes)
    own = {"H": heads, "F": factors, "DK": key_width, "DV": value_width, "STRIDE": z.shape[2]}
    return {**own, "BD": channels, "BT": stretch, "W": taps.shape[1]}


def _tile(sizes: list[int]) -> tuple[int, int]:
    """Tokens of a stretch, and channels: all of a head of keys."""
    channels = max(16, 1 << (sizes[2] - 1).bit_length())
    return max(1, min(_STRETCH, _NUMBERS // channels)), channels


def _grid(z: Tensor, sizes: list[int]) -> tuple[int, int]:
    """Programs: one a stretch of a sequence, and a head of queries or keys or a tile of values."""
    heads, factors, _, value_width, _ = sizes
    stretch, channels = _tile(sizes)
    tiles = 1 + factors + factors * -(-value_width // channels)
    return z.shape[0] * -(-z.shape[1] // stretch), heads * tiles


def _tile_of_gates(z: Tensor, sizes: list[int]) -> tuple[int, int, int]:
    """Rows; columns and rows of a tile that holds beta, the decays of all factors and padding."""
    columns = 1 << (2 * sizes[0] * sizes[1] + _ALIGNED - 1).bit_length()
    return z.shape[0] * z.shape[1], columns, max(1, _TILE // columns)


def _given(x: Tensor | None, instead: Tensor) -> Tensor:
    """A buffer, or another one that the kernel will not touch."""
    return instead if x is None else x.contiguous()
