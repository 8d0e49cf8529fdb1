"""Which of FLA's kernels a workload takes, past the known faults, and why none where none does."""

import importlib.util
from dataclasses import dataclass
from functools import cache, partial

import torch

from lt2theory.ops.fla.kernels import Kernel, candidates
from lt2theory.ops.fla.steps import run_kernel
from lt2theory.ops.known_faults import find_faults
from lt2theory.ops.selftest import find_verdict
from lt2theory.ops.selftest_recurrence import RecurrenceClass
from lt2theory.ops.workload import (
    RecurrenceRunner,
    RecurrenceWorkload,
    is_interpreting,
    not_by_itself,
)

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)

_MAX_KEY_WIDTH = 256  # of a state that one block holds

# Up to this many steps the kernel for single steps needs less work than a chunk of 64.
_FEW_STEPS = 16

# One tile, to which narrower heads are filled up (`fla.steps`).
_NARROW = 16

_STOPPED = "'misaligned address', which ends a process (H200, Triton 3.6.0, FLA 0.6.0)"


@dataclass(frozen=True)
class Route:
    """A kernel for a workload.

    Attributes:
        kernel: The kernel.
        notes: What was decided on the way, for a person.
        lifts_guard: Whether FLA's own guard has to be lifted for its backward pass.
    """

    kernel: Kernel
    notes: tuple[str, ...] = ()
    lifts_guard: bool = False

    def __str__(self) -> str:
        return "; ".join((self.kernel.name, *self.notes))


def refuses(workload: RecurrenceWorkload) -> str | None:
    """Why FLA's kernels cannot run a workload at all, as far as is known without running them.

    Args:
        workload: What is to be computed.

    Returns:
        The reason and what to do, or None where they can.
    """
    route = find_route(workload, measure=False)
    return route if isinstance(route, str) else None


def fails(workload: RecurrenceWorkload) -> str | None:
    """Why FLA's kernels cannot run a workload after a gradient self-test, where there is one.

    Args:
        workload: What is to be computed.

    Returns:
        The reason and what to do, or None where they can.
    """
    route = find_route(workload)
    return route if isinstance(route, str) else None


def hazard(workload: RecurrenceWorkload) -> str | None:
    """The measured fault for which `auto` does not take the kernel that a workload would get.

    Args:
        workload: What is to be computed.

    Returns:
        The fault, or None where none is known or FLA has no kernel.
    """
    route = find_route(workload, measure=False)
    if isinstance(route, str):
        return None
    if min(workload.key_width, workload.value_width) <= _NARROW:
        return (
            f"heads of {_NARROW} keys or values at most: chunk_gla stopped for heads of 8, filled "
            f"up to {_NARROW}, with {_STOPPED}; the name 'fla' takes them"
        )
    if route.lifts_guard:
        return (
            f"{'; '.join(route.notes)}: FLA's own guard would have to be lifted; a RetNet "
            f"that took chunk_simple_gla so stopped with {_STOPPED}; the name 'fla' takes it "
            "behind a self-test"
        )
    return None


def declines(workload: RecurrenceWorkload) -> str | None:
    """Why `auto` passes over FLA's kernels though they could run a workload.

    Args:
        workload: What is to be computed, which they can run.

    Returns:
        The reason, or None.
    """
    if (reason := not_by_itself(workload, "fla")) is not None:
        return reason
    if torch.are_deterministic_algorithms_enabled():
        return "its autotuner may choose other kernels in another process"
    return hazard(workload)


def describe(workload: RecurrenceWorkload) -> str | None:
    """The kernel that a workload takes, for a person.

    Args:
        workload: What is to be computed.

    Returns:
        Its name and what led to it, or None where there is none.
    """
    route = find_route(workload)
    if isinstance(route, str):
        return None
    if runs_by_steps(workload, route.kernel):
        return f"{route.kernel.step_name} for {workload.length * workload.num_factors} steps"
    return str(route)


def find_route(workload: RecurrenceWorkload, *, measure: bool = True) -> Route | str:
    """The first kernel that computes a workload and has no known fault there.

    Args:
        workload: What is to be computed.
        measure: Whether to run the self-test that a known fault allows; else it counts as passed.

    Returns:
        The route, or why there is none and what to do instead.
    """
    objection = _unsupported(workload)
    if objection is not None:
        return objection
    notes: list[str] = []
    for kernel in candidates(workload):
        faults = find_faults(kernel.name, workload.architecture)
        tested = all(fault.self_test for fault in faults)
        # A self-test is about the backward pass by chunks, which a few steps do not run.
        if not faults or (tested and runs_by_steps(workload, kernel)):
            return Route(kernel, tuple(notes))
        for fault in faults:
            notes.append(f"{kernel.name}: {fault.what} ({fault.source})")
        if tested and not measure:
            return Route(kernel, tuple(notes), lifts_guard=True)
        if tested:
            run: RecurrenceRunner = partial(run_kernel, kernel, lift_guard=True)
            verdict = find_verdict(RecurrenceClass.of(kernel.name, workload), run)
            notes.append(str(verdict))
            if verdict.passed:
                return Route(kernel, tuple(notes), lifts_guard=True)
    return "; ".join(("every kernel has a known fault here; ask for 'chunked'", *notes))


def runs_by_steps(workload: RecurrenceWorkload, kernel: Kernel) -> bool:
    """Whether the kernel for a few steps is taken.

    Args:
        workload: What is to be computed.
        kernel: The kernel of its route.

    Returns:
        True for a few steps, unless a gradient is needed that this kernel does not have.
    """
    if workload.length * workload.num_factors > _FEW_STEPS:
        return False
    return not (workload.gradients and find_faults(kernel.step_name, workload.architecture))


def _unsupported(workload: RecurrenceWorkload) -> str | None:
    """What FLA has no kernel for, faults aside."""
    if not is_installed():
        return "flash-linear-attention and triton are not installed (pip install 'lt2theory')"
    if workload.device != "cuda" and not is_interpreting():
        return (
            f"its Triton kernels run on CUDA tensors, not on {workload.device}; move the model or "
            "ask for 'chunked'"
        )
    if workload.dtype not in _DTYPES:
        return f"it computes in float32 at most, not {workload.dtype}; ask for 'chunked'"
    if workload.key_width > _MAX_KEY_WIDTH:
        return f"key width {workload.key_width} exceeds {_MAX_KEY_WIDTH}; take more, narrower heads"
    if workload.erases and workload.own_write:
        return "it writes with the erase strength beta alone; ask for 'chunked'"
    if workload.erases and workload.decay == "vector" and workload.order == "erase_first":
        return "it decays before it erases; ask for 'chunked' or order='decay_first'"
    if workload.transformed:
        return "it cannot be transformed by torch.func; ask for 'chunked'"
    return None


@cache
def is_installed() -> bool:
    """Whether FLA and Triton can be imported."""
    return all(importlib.util.find_spec(name) is not None for name in ("fla", "triton"))
