"""What our kernels of the recurrence cannot do, and what `auto` does not take them for."""

import importlib.util
from functools import cache

import torch
from torch import Tensor

from lt2theory.ops.factors import Factors
from lt2theory.ops.fla import route as fla_route
from lt2theory.ops.selftest import find_verdict, known_verdict
from lt2theory.ops.selftest_recurrence import RecurrenceClass
from lt2theory.ops.selftest_verdicts import Verdict
from lt2theory.ops.triton_delta.tiles import (
    WIDEST_KEYS,
    WIDEST_VALUES,
    ahead_tiles,
    goes_ahead,
    tiles_of,
)
from lt2theory.ops.workload import RecurrenceWorkload, is_interpreting, not_by_itself

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)

# Verdicts of the self-test are kept under this name: another number when the kernels change.
_KERNEL = "delta_rule 3"

# Up to this many factor steps other kernels and the token loop need less work than one chunk.
_FEW_STEPS = 16


def refuses(workload: RecurrenceWorkload) -> str | None:
    """Why the kernels cannot run a workload at all.

    Args:
        workload: What is to be computed.

    Returns:
        The reason and what to do, or None where they can.
    """
    if not is_installed():
        return "triton is not installed (pip install 'lt2theory')"
    if workload.device != "cuda" and not is_interpreting():
        return (
            f"its Triton kernels run on CUDA tensors, not on {workload.device}; move the model or "
            "ask for 'chunked'"
        )
    if workload.dtype not in _DTYPES:
        return f"it computes in float32 at most, not {workload.dtype}; ask for 'chunked'"
    if workload.decay == "vector":
        return "it has one decay a head, not one a channel; ask for 'fla' or 'chunked'"
    for name, widest in (("key_width", WIDEST_KEYS), ("value_width", WIDEST_VALUES)):
        if getattr(workload, name) > widest:
            return (
                f"{name.replace('_', ' ')} {getattr(workload, name)} exceeds {widest}; take more, "
                "narrower heads"
            )
    if workload.transformed:
        return "it cannot be transformed by torch.func; ask for 'chunked'"
    return None


def declines(workload: RecurrenceWorkload) -> str | None:
    """Why `auto` passes over the kernels though they could run a workload.

    Args:
        workload: What is to be computed, which they can run.

    Returns:
        The reason, or None.
    """
    if (reason := not_by_itself(workload, "triton")) is not None:
        return reason
    steps = workload.length * workload.num_factors
    if steps <= _FEW_STEPS:
        return f"{steps} factor steps are fewer than a chunk is worth"
    plain = workload.erases and not workload.own_write
    if not plain and fla_route.hazard(workload) is None:
        return "it was made for factors that erase and write with one strength"
    verdict = _verdict(workload)
    return None if verdict.passed else str(verdict)


def describe(workload: RecurrenceWorkload) -> str | None:
    """What the kernels do with a workload, for a person.

    Args:
        workload: What is to be computed.

    Returns:
        The sizes of their tiles, and the verdict on them once `auto` has asked for it.
    """
    verdict = known_verdict(RecurrenceClass.of(_KERNEL, workload))
    return _tiles(workload) if verdict is None else f"{_tiles(workload)}; {verdict}"


def _tiles(workload: RecurrenceWorkload) -> str:
    """The sizes of the kernels' tiles, for a person."""
    widths = workload.key_width, workload.value_width
    if not workload.gradients and goes_ahead(*widths, workload.length * workload.num_factors):
        ahead = ahead_tiles(*widths)
        chunks = f"chunks of {ahead.size} factor steps, prepared at once"
        return f"{chunks}, {ahead.values} values a program"
    tiles = tiles_of(*widths)
    return f"chunks of {1 << tiles.log_steps} factor steps, {tiles.values} values a program"


@cache
def is_installed() -> bool:
    """Whether Triton can be imported."""
    return importlib.util.find_spec("triton") is not None


def _verdict(workload: RecurrenceWorkload) -> Verdict:
    """The gradient self-test's, known or measured now."""
    from lt2theory.ops.triton_delta.recurrence import triton_recurrence

    wide = goes_ahead(workload.key_width, workload.value_width, 1 << 30)
    shape = RecurrenceClass.of(_KERNEL, workload)
    return find_verdict(shape, _both if wide else triton_recurrence)


def _both(factors: Factors, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """Gradients of the kernels that have them, and values of those for long streams.

    Those that have gradients compute what they give from the states and inverses that lead to
    their values, so that wrong ones would show in the gradients.

    Returns:
        Output and last state.
    """
    from lt2theory.ops.triton_delta.recurrence import ahead_recurrence, triton_recurrence

    found = triton_recurrence(factors, state)
    values = ahead_recurrence(factors, state)
    output, final = (x + (y - x).detach() for x, y in zip(found, values, strict=True))
    return output, final
