"""What our kernels of the recurrence cannot do, and what `auto` does not take them for."""

import importlib.util
from functools import cache

import torch

from lt2theory.ops.selftest import find_verdict
from lt2theory.ops.selftest_verdicts import ShapeClass, Verdict
from lt2theory.ops.triton_delta.tiles import WIDEST_KEYS, WIDEST_VALUES, tiles_of
from lt2theory.ops.workload import RecurrenceWorkload, is_interpreting

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)

# Verdicts of the self-test are kept under this name: another number when the kernels change.
_KERNEL = "delta_rule 2"

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
    if workload.device == "cpu":
        return "Triton's interpreter is there for tests"
    if workload.dtype == torch.float32 and not workload.tf32:
        return (
            "float32 products would be rounded to TensorFloat-32; torch.set_float32_matmul_"
            "precision('high'), autocast or the name 'triton' allow it"
        )
    steps = workload.length * workload.num_factors
    if steps <= _FEW_STEPS:
        return f"{steps} factor steps are fewer than a chunk is worth"
    if not workload.erases or workload.own_write:
        return "it was made for factors that erase and write with one strength"
    verdict = _verdict(workload)
    return None if verdict.passed else str(verdict)


def describe(workload: RecurrenceWorkload) -> str | None:
    """What the kernels do with a workload, for a person.

    Args:
        workload: What is to be computed.

    Returns:
        The sizes of their tiles.
    """
    tiles = tiles_of(workload.key_width, workload.value_width)
    return f"chunks of {1 << tiles.log_steps} factor steps, {tiles.values} values a program"


@cache
def is_installed() -> bool:
    """Whether Triton can be imported."""
    return importlib.util.find_spec("triton") is not None


def _verdict(workload: RecurrenceWorkload) -> Verdict:
    """The gradient self-test's, known or measured now."""
    from lt2theory.ops.triton_delta.recurrence import triton_recurrence

    return find_verdict(ShapeClass.of(_KERNEL, workload), triton_recurrence)
