"""The delta rule as an operator of torch: values, gradients, and shapes for `torch.compile`.

`S_t = (I - beta_t k_t k_t^T) alpha_t S_{t-1} + w_t k_t v_t^T`, read by `scale * S_t^T q_t` after
the last factor of every token, with at most one decay a head. A program walks the chunks of one
sequence and head in turn, its state in registers: the WY form of DeltaNet (arXiv 2406.06484) with
scalar decays (2412.06464), the unit triangular inverse by doubling blocks. The forward pass keeps
the state before every chunk and the chunk's inverse; the backward pass walks in reverse and
computes everything else again. Nothing waits for the device, is tuned, or adds in a loose order.

Sums are float32. Products that only a read-out or the gradient of an input depends on cut their
operands to TensorFloat-32. Those that reach the next state, or the gradient of an earlier one, are
whole: a reflection (beta 2, no decay) forgets nothing, a cut always makes a number smaller, and
over equal keys the losses would add up, to 0.1 of the state in 70 steps and 0.5 in 1000.

Axes: b batch, t time, f factors a token, h heads, n chunks, c steps of a chunk, k key width,
v value width.
"""

from typing import Any

import torch
from torch import Tensor

from lt2theory.ops.triton_delta.ahead import run_ahead
from lt2theory.ops.triton_delta.tiles import Tiles, goes_ahead, tiles_of

_PRODUCTS = "tf32"
# The annotations below are read by torch as the schemas of the operators.


@torch.library.custom_op("lt2theory::delta_rule", mutates_args=())
def delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None,
    beta: Tensor | None,
    write: Tensor | None,
    state: Tensor | None,
    scale: float,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Values of the recurrence, and what its backward pass needs; without that, see `ahead` too.

    Args:
        q: Queries `[b t h k]`, contiguous as all inputs.
        k: Keys `[b t f h k]`.
        v: Values `[b t f h v]`.
        log_decay: Natural log of the decay `[b t f h]`, or None for no decay.
        beta: Erase strength `[b t f h]`, or None for no erasure.
        write: Write strength `[b t f h]`, or None for beta where it is given and 1 elsewhere.
        state: State before the first token `[b h k v]`, float32, or None for zero.
        scale: Factor on the read-out.
        keep: Whether gradients will be asked for.

    Returns:
        The outputs `[b t h v]` in the dtype of v, the last state `[b h k v]` in float32, and, empty
        unless `keep`, the states before the chunks `[b h n k v]` and the inverses `[b h n c c]`.
    """
    from lt2theory.ops.triton_delta.triton_forward import forward_kernel

    tiles = tiles_of(k.shape[-1], v.shape[-1])
    out, end, states, inverses = forward_buffers(q, k, v, beta is not None, keep)
    _, length, factors, heads, width = k.shape
    if not keep and goes_ahead(width, v.shape[-1], length * factors):
        run_ahead((q, k, v, log_decay, beta, write), state, scale, out, end)
        return out, end, states, inverses
    forward_kernel[_grid(tiles, k, v)](
        q, k, v, _given(log_decay, q), _given(beta, q), _given(write, q), _given(state, end),
        out, end, states, inverses,
        length, factors, tiles.chunks(length * factors), scale, int(state is not None), int(keep),
        H=heads, DK=width, DV=v.shape[-1], BK=tiles.keys, BV=tiles.values, LOG=tiles.log_steps,
        DECAYS=log_decay is not None, ERASES=beta is not None, WRITES=write is not None,
        PREC=_PRODUCTS, num_warps=tiles.forward_warps,
    )  # fmt: skip
    return out, end, states, inverses


@torch.library.custom_op("lt2theory::delta_rule_backward", mutates_args=())
def delta_rule_backward(
    d_out: Tensor,
    d_end: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None,
    beta: Tensor | None,
    write: Tensor | None,
    states: Tensor,
    inverses: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients of `delta_rule`.

    Args:
        d_out: Gradient of the outputs `[b t h v]`.
        d_end: Gradient of the last state `[b h k v]`, or None for zero.
        q: As in `delta_rule`.
        k: As in `delta_rule`.
        v: As in `delta_rule`.
        log_decay: As in `delta_rule`.
        beta: As in `delta_rule`.
        write: As in `delta_rule`.
        states: States before the chunks, from the forward pass.
        inverses: Inverses of the chunks, from the forward pass.
        scale: As in `delta_rule`.

    Returns:
        Gradients of q, k, v, log_decay, beta, write (each in the dtype of its input, empty where
        there is none) and of the initial state in float32.
    """
    from lt2theory.ops.triton_delta.triton_backward import backward_kernel

    tiles = tiles_of(k.shape[-1], v.shape[-1])
    count = tiles.count(v.shape[-1])
    # Each tile of values has its own part of the gradients that sum over values.
    parts = [_parts(x, q, count) for x in (q, k, log_decay, beta, write)]
    dq, dk, d_decay, d_beta, d_write = parts
    dv = torch.empty_like(v)
    d_start = _state_like(k, v)
    _, length, factors, heads, width = k.shape
    backward_kernel[_grid(tiles, k, v)](
        q, k, v, _given(log_decay, q), _given(beta, q), _given(write, q), states, inverses,
        d_out.contiguous(), d_start if d_end is None else d_end.contiguous(),
        dq, dk, dv, d_decay, d_beta, d_write, d_start,
        length, factors, tiles.chunks(length * factors), scale, int(d_end is not None),
        H=heads, DK=width, DV=v.shape[-1], BK=tiles.keys, BV=tiles.values, LOG=tiles.log_steps,
        DECAYS=log_decay is not None, ERASES=beta is not None, WRITES=write is not None,
        PREC=_PRODUCTS, num_warps=tiles.backward_warps,
    )  # fmt: skip
    if count > 1:
        dq, dk, d_decay, d_beta, d_write = (_sum(part, q.dtype) for part in parts)
    return dq, dk, dv, d_decay, d_beta, d_write, d_start


@delta_rule.register_fake
def _delta_rule_shapes(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None,
    beta: Tensor | None,
    write: Tensor | None,
    state: Tensor | None,
    scale: float,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return forward_buffers(q, k, v, beta is not None, keep)


@delta_rule_backward.register_fake
def _delta_rule_backward_shapes(
    d_out: Tensor,
    d_end: Tensor | None,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None,
    beta: Tensor | None,
    write: Tensor | None,
    states: Tensor,
    inverses: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    dq, dk, d_decay, d_beta, d_write = (_parts(x, q, 1) for x in (q, k, log_decay, beta, write))
    return dq, dk, torch.empty_like(v), d_decay, d_beta, d_write, _state_like(k, v)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    *tensors, _, ctx.scale, _ = inputs
    states, inverses = output[2:]
    ctx.set_materialize_grads(False)  # an unread state would cost a buffer of zeros
    ctx.mark_non_differentiable(states, inverses)
    ctx.save_for_backward(*tensors, states, inverses)


def _differentiate(
    ctx: Any, d_out: Tensor | None, d_end: Tensor | None, *_: Tensor | None
) -> tuple[Tensor | None, ...]:
    if torch.is_grad_enabled():
        raise ValueError(
            "backend 'triton' has first derivatives only; ask for 'chunked' under create_graph"
        )
    q, k, v, log_decay, beta, write, states, inverses = ctx.saved_tensors
    if d_out is None:
        d_out = torch.zeros_like(v[:, :, 0])
    gradients = delta_rule_backward(
        d_out, d_end, q, k, v, log_decay, beta, write, states, inverses, ctx.scale
    )
    needed = ctx.needs_input_grad[: len(gradients)]
    return (*(g if n else None for g, n in zip(gradients, needed, strict=True)), None, None)


delta_rule.register_autograd(_differentiate, setup_context=_save)


def forward_buffers(
    q: Tensor, k: Tensor, v: Tensor, erases: bool, keep: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Results of the forward pass, not yet written.

    Args:
        q: As in `delta_rule`.
        k: As there.
        v: As there.
        erases: Whether there is a beta.
        keep: As there.

    Returns:
        As there.
    """
    tiles = tiles_of(k.shape[-1], v.shape[-1])
    batch, length, factors, heads, width = k.shape
    kept = (batch, heads, tiles.chunks(length * factors)) if keep else (0, 0, 0)
    size = 1 << tiles.log_steps
    inverses = kept if erases else (0, 0, 0)
    return (
        v.new_empty(batch, length, heads, v.shape[-1]),
        _state_like(k, v),
        q.new_empty(*kept, width, v.shape[-1], dtype=torch.float32),
        q.new_empty(*inverses, size, size, dtype=torch.float32),
    )


def _state_like(k: Tensor, v: Tensor) -> Tensor:
    """A state of these keys and values, not yet written."""
    batch, _, _, heads, width = k.shape
    return k.new_empty(batch, heads, width, v.shape[-1], dtype=torch.float32)


def _parts(x: Tensor | None, like: Tensor, count: int) -> Tensor:
    """Where an input's gradient is written, in parts where there are several tiles."""
    if x is None:
        return like.new_empty(0)
    return torch.empty_like(x) if count == 1 else x.new_empty(count, *x.shape, dtype=torch.float32)


def _sum(parts: Tensor, dtype: torch.dtype) -> Tensor:
    """The sum of the parts of a gradient; nothing stays nothing."""
    return parts.sum(0).to(dtype) if parts.numel() else parts.to(dtype)


def _given(x: Tensor | None, instead: Tensor) -> Tensor:
    """A buffer, or another one that the kernel will not touch."""
    return instead if x is None else x


def _grid(tiles: Tiles, k: Tensor, v: Tensor) -> tuple[int, int]:
    """Programs: one a sequence and head, and a tile of values."""
    return k.shape[0] * k.shape[3], tiles.count(v.shape[-1])
