"""The public linear recurrence: checks its arguments, chooses a backend, runs it."""

from typing import Literal, overload

from torch import Tensor

from lt2theory.ops.autocast import own_precision
from lt2theory.ops.backends import RECURRENCES
from lt2theory.ops.factors import FactorOrder, Factors
from lt2theory.ops.recurrence_checks import check_state, check_values, checked_factors
from lt2theory.ops.registry import Choice
from lt2theory.ops.workload import RecurrenceRunner, RecurrenceWorkload

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
    factors = checked_factors(q, k, v, log_decay, beta, write, scale=scale, order=order)
    check_state(initial_state, factors)
    if check:
        check_values(factors, initial_state)
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
    check_state(initial_state, factors)
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
