"""The public linear recurrence: checks its arguments, chooses a backend, runs it."""

from typing import Literal, cast, get_args, overload

import torch
from torch import Tensor

from lt2theory.ops.autocast import own_precision
from lt2theory.ops.backends import RECURRENCES, RecurrenceRunner
from lt2theory.ops.factors import FactorOrder, Factors
from lt2theory.ops.reference import state_dtype
from lt2theory.ops.registry import Choice
from lt2theory.ops.workload import RecurrenceWorkload

# The arguments of the functions here are annotated as plain tensors and strings on purpose: a wrong
# shape or name is the caller's mistake and has to end in a ValueError that names the argument, also
# where annotations are checked at run time.


@overload
def linear_recurrence(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    log_decay: Tensor | None = ...,
    beta: Tensor | None = ...,
    write: Tensor | None = ...,
    scale: float | None = ...,
    initial_state: Tensor | None = ...,
    order: FactorOrder = ...,
    backend: str = ...,
    return_state: Literal[False] = ...,
    check: bool = ...,
) -> Tensor: ...


@overload
def linear_recurrence(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    log_decay: Tensor | None = ...,
    beta: Tensor | None = ...,
    write: Tensor | None = ...,
    scale: float | None = ...,
    initial_state: Tensor | None = ...,
    order: FactorOrder = ...,
    backend: str = ...,
    return_state: Literal[True],
    check: bool = ...,
) -> tuple[Tensor, Tensor]: ...


@overload
def linear_recurrence(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    log_decay: Tensor | None = ...,
    beta: Tensor | None = ...,
    write: Tensor | None = ...,
    scale: float | None = ...,
    initial_state: Tensor | None = ...,
    order: FactorOrder = ...,
    backend: str = ...,
    return_state: bool,
    check: bool = ...,
) -> Tensor | tuple[Tensor, Tensor]: ...


def linear_recurrence(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    log_decay: Tensor | None = None,
    beta: Tensor | None = None,
    write: Tensor | None = None,
    scale: int | float | None = None,
    initial_state: Tensor | None = None,
    order: str = "decay_first",
    backend: str = "auto",
    return_state: bool = False,
    check: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """Run the recurrence behind every linear mixer.

    `S_t = (I - beta_t k_t k_t^T) diag(alpha_t) S_{t-1} + w_t k_t v_t^T` and
    `o_t = scale * S_t^T q_t`; with `order="erase_first"` the decay acts after the erasure.
    All tensors share one floating dtype and one device. Half precision is computed in float32 (the
    backend `fla` multiplies it as it is and sums in float32). Autocast changes nothing but this: on
    a GPU it lets `auto` take kernels that multiply in TensorFloat-32.

    For f factors a token, k, v, log_decay, beta and write get an axis f after time: the factors
    are applied in turn, each with its own decay, and q reads after the last.

    Args:
        q: Queries `[batch, time, head, key width]`.
        k: Keys `[batch, time, (factor,) head, key width]`.
        v: Values `[batch, time, (factor,) head, value width]`.
        log_decay: Natural log of alpha, at most 0: `[batch, time, (factor,) head]`, with one more
            axis of the key width for a decay a channel, or None for no decay.
        beta: Erase strength `[batch, time, (factor,) head]`, or None for no erasure.
        write: Write strength `[batch, time, (factor,) head]`, or None for `beta` where it is
            given and 1 elsewhere.
        scale: Factor on the output, or None for `key width ** -0.5`.
        initial_state: State before the first token `[batch, head, key width, value width]`, in
            float64 for float64 inputs and float32 otherwise, or None for zero.
        order: `decay_first` or `erase_first`.
        backend: A name in `BACKENDS`.
        return_state: Whether to return the state after the last token too.
        check: Whether to look at the values too (this waits for the device).

    Returns:
        The outputs `[batch, time, head, value width]` in the dtype of q, or a pair of them and
        the state.

    Raises:
        ValueError: If an argument has a wrong shape, dtype, device or name, or, under `check`, a
            value that is not finite or a log decay above 0.
    """
    factors = _checked_factors(q, k, v, log_decay, beta, write, scale=scale, order=order)
    _check_state(initial_state, factors)
    if check:
        _check_values(factors, initial_state)
    output, state = run_factors(factors, initial_state=initial_state, backend=backend)
    return (output, state) if return_state else output


@overload
def run_factors(
    factors: Factors,
    *,
    initial_state: Tensor | None = ...,
    backend: str = ...,
    return_state: Literal[True] = ...,
) -> tuple[Tensor, Tensor]: ...


@overload
def run_factors(
    factors: Factors,
    *,
    initial_state: Tensor | None = ...,
    backend: str = ...,
    return_state: Literal[False],
) -> Tensor: ...


def run_factors(
    factors: Factors,
    *,
    initial_state: Tensor | None = None,
    backend: str = "auto",
    return_state: bool = True,
) -> Tensor | tuple[Tensor, Tensor]:
    """`linear_recurrence` on a `Factors` object, which always has the factor axis.

    Args:
        factors: The inputs of the recurrence.
        initial_state: State before the first token, or None for zero.
        backend: A name in `BACKENDS`.
        return_state: Whether to return the state after the last token too.

    Returns:
        The outputs and the state, or the outputs alone.

    Raises:
        ValueError: If the backend is unknown or cannot do this, the state does not fit, or the
            factors are normalised (`log_write`).
    """
    if factors.log_write is not None:
        raise ValueError("log_write: normalised factors are run by `run_normalised`")
    _check_state(initial_state, factors)
    choice = explain_recurrence(factors, backend=backend)
    runner = choice.backend.load()
    with own_precision(factors.q.device):
        output, state = runner(factors, initial_state)
    if factors.skip is not None:
        own = factors.skip[:, None] * factors.v[:, :, -1]
        output = output + own.to(output.dtype)
    return (output, state) if return_state else output


def explain_recurrence(
    factors: Factors, *, backend: str = "auto"
) -> Choice[RecurrenceWorkload, RecurrenceRunner]:
    """Which backend would run these factors, and why.

    Args:
        factors: The inputs of the recurrence.
        backend: A name in `BACKENDS`.

    Returns:
        The choice; `str()` of it is one line for a person.
    """
    return RECURRENCES.choose(RecurrenceWorkload.of(factors), backend)


def _checked_factors(
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
    """Factors with the factor axis, after checking shapes, dtypes, devices and the order."""
    if order not in get_args(FactorOrder):
        raise ValueError(f"order must be one of {get_args(FactorOrder)}, got {order!r}")
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


def _check_state(state: Tensor | None, factors: Factors) -> None:
    """Refuse an initial state of a wrong shape, dtype or device."""
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


def _check_values(factors: Factors, initial_state: Tensor | None) -> None:
    """Refuse values that are not finite and decays above 1."""
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
