"""What the linear recurrence refuses: factors, states and values that do not fit each other."""

from typing import cast, get_args

import torch
from torch import Tensor

from lt2theory.ops.factors import FactorOrder, Factors
from lt2theory.ops.reference import state_dtype
from tasks.names import unknown_name

# Annotated as plain tensors for the reason given in lt2theory.ops.recurrence.


def checked_factors(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    log_decay: Tensor | None,
    beta: Tensor | None,
    write: Tensor | None,
    *,
    scale: int | float | None,
    order: str,
) -> Factors:
    """The factors that the arguments of `linear_recurrence` define.

    Args:
        q: Queries.
        k: Keys, with a factor axis or without one.
        v: Values, as the keys.
        log_decay: Natural log of alpha, or None.
        beta: Erase strength, or None.
        write: Write strength, or None.
        scale: Factor on the output, or None.
        order: `decay_first` or `erase_first`.

    Returns:
        The factors, with the factor axis.

    Raises:
        ValueError: If a shape, a dtype, a device or the order does not fit.
    """
    if order not in get_args(FactorOrder):
        raise ValueError(unknown_name("order", order, get_args(FactorOrder)))
    if not q.is_floating_point() or q.dim() != 4 or q.shape[-1] == 0:
        raise ValueError(
            "q must be a floating tensor [batch, time, head, key width >= 1], "
            f"got {q.dtype} {_shape(q)}"
        )
    batch, length, heads, width = q.shape
    if k.dim() not in {4, 5}:
        raise ValueError(f"k must have 4 axes, or 5 with a factor axis, got {_shape(k)}")
    steps = (batch, length, *k.shape[2:-2], heads)
    if k.dim() == 5 and k.shape[2] == 0:
        raise ValueError(f"k must have at least one factor a token, got {_shape(k)}")
    _expect("k", k, q, (*steps, width))
    _expect("v", v, q, (*steps, v.shape[-1] if v.dim() else 0))
    gates = {"log_decay": log_decay, "beta": beta, "write": write}
    for name, gate in gates.items():
        if gate is not None:
            per_channel = name == "log_decay" and gate.dim() == k.dim()
            _expect(name, gate, q, (*steps, width) if per_channel else steps)
    if k.dim() == 4:
        k, v = k.unsqueeze(2), v.unsqueeze(2)
        gates = {name: None if g is None else g.unsqueeze(2) for name, g in gates.items()}
    return Factors(
        q,
        k,
        v,
        scale=None if scale is None else float(scale),
        order=cast("FactorOrder", order),
        **gates,
    )


def check_state(state: Tensor | None, factors: Factors) -> None:
    """Refuse an initial state that does not fit the factors.

    Args:
        state: The state, or None.
        factors: The factors.

    Raises:
        ValueError: If it has a wrong shape, dtype or device.
    """
    if state is None:
        return
    batch, _, heads, width = factors.q.shape
    expected = (batch, heads, width, factors.v.shape[-1])
    if tuple(state.shape) != expected:
        raise ValueError(f"initial_state must have shape {expected}, got {_shape(state)}")
    dtype = state_dtype(factors.v.dtype)
    if state.dtype != dtype:
        raise ValueError(
            f"initial_state must be {dtype} for {factors.v.dtype} inputs, got {state.dtype}"
        )
    if state.device != factors.q.device:
        raise ValueError(f"initial_state must be on {factors.q.device} as q is, got {state.device}")


def check_values(factors: Factors, initial_state: Tensor | None) -> None:
    """Refuse values that are not finite and decays above 1.

    Args:
        factors: The factors.
        initial_state: The state before the first token, or None.

    Raises:
        ValueError: If there is such a value; it names the tensor.
    """
    tensors = {name: getattr(factors, name) for name in ("q", "k", "v", "beta", "write")}
    for name, tensor in {**tensors, "initial_state": initial_state}.items():
        if tensor is not None and not bool(torch.isfinite(tensor).all()):
            raise ValueError(f"{name} must be finite, got NaN or an infinity")
    log_decay = factors.log_decay
    # Minus infinity is a decay of 0 and allowed; NaN fails the comparison.
    if log_decay is not None and not bool((log_decay <= 0).all()):
        raise ValueError(
            f"log_decay must be at most 0 and not NaN, got a maximum of {log_decay.max().item():g}"
        )


def _expect(name: str, tensor: Tensor, like: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse a tensor that has another shape than `shape`, or another dtype or device than q."""
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name} must have shape {shape} to match q, got {_shape(tensor)}")
    if tensor.dtype != like.dtype:
        raise ValueError(f"{name} must be {like.dtype} as q is, got {tensor.dtype}")
    if tensor.device != like.device:
        raise ValueError(f"{name} must be on {like.device} as q is, got {tensor.device}")


def _shape(tensor: Tensor) -> str:
    """The shape, for a message."""
    return str(tuple(tensor.shape))
