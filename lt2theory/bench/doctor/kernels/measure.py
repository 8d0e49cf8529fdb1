"""Measures one kernel: twice against float64, over poisoned memory, and for the same bits twice."""

import importlib.util
import math
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from lt2theory.bench.doctor.cases import DTYPES
from lt2theory.bench.doctor.inputs import SEED
from lt2theory.bench.doctor.kernels.check import Draw, KernelCheck, Problem
from lt2theory.bench.doctor.kernels.table import KERNELS
from lt2theory.bench.doctor.measure import FAILURES, Verdict
from lt2theory.ops.agreement import Agreement, measure_agreement
from lt2theory.ops.workload import is_interpreting

DRAWS = 2
"""Problems a dtype: a result that is left over from the first is wrong for the second."""


@dataclass(frozen=True)
class KernelOutcome:
    """What a kernel's check came to.

    Attributes:
        kernel: Name of the check.
        dtype: Dtype of the inputs.
        verdict: What it came to.
        reason: Why: what was wrong, or why nothing ran.
        value_error: Largest relative error of an output; None where none was measured or it is
            not finite.
        gradient_error: Likewise, of a gradient; 0 for a kernel without.
        worst_gradient: The input whose gradient that is.
        tolerance: What was allowed; None where nothing was measured.
        same_bits: Whether a second run gave the same bits; None where nothing was measured.
        seconds: Wall-clock time, compiling included.
    """

    kernel: str
    dtype: str
    verdict: Verdict
    reason: str = ""
    value_error: float | None = None
    gradient_error: float | None = None
    worst_gradient: str = ""
    tolerance: float | None = None
    same_bits: bool | None = None
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether something is broken; a refusal is not."""
        return self.verdict in FAILURES

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "KernelOutcome":
        """What `to_json` wrote.

        Args:
            values: Its fields.

        Returns:
            The outcome.
        """
        return cls(**values)


def refusal(device: str) -> str | None:
    """Why kernels cannot run at all.

    Args:
        device: Where.

    Returns:
        The reason, or None where they can.
    """
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed"
    kind = torch.device(device).type
    if kind != "cuda" and not is_interpreting():
        return f"Triton kernels run on CUDA tensors, not on {kind}"
    return None


def measure_kernel(name: str, dtype: str, device: str) -> KernelOutcome:
    """Check a kernel in one dtype.

    Args:
        name: Name of a check in `KERNELS`.
        dtype: Name of a dtype that it has a tolerance for.
        device: Where.

    Returns:
        The outcome; an exception of the kernel is one too.
    """
    begin = time.perf_counter()
    check = next(check for check in KERNELS if check.name == name)
    try:
        outcome = _measure(check, dtype, device)
    except Exception as error:  # noqa: BLE001 - whatever a kernel raises is what is asked for
        said = " ".join(str(error).split())[:300]
        outcome = KernelOutcome(name, dtype, "crashed", f"{type(error).__name__}: {said}")
    return replace(outcome, seconds=round(time.perf_counter() - begin, 3))


def _measure(check: KernelCheck, dtype: str, device: str) -> KernelOutcome:
    tolerance, found = check.tolerances[dtype], []
    with _poisoned():
        for seed in range(SEED, SEED + DRAWS):
            generator = torch.Generator().manual_seed(seed)
            problem = check.build(Draw(generator, DTYPES[dtype], device))
            with torch.set_grad_enabled(problem.differentiable):
                found.append(_agreement(problem, generator))
                bits = [_bits(problem) for _ in range(2)]
    same = all(torch.equal(a, b) for a, b in zip(*bits, strict=True))
    output, value = max((each.worst_value() for each in found), key=_size)
    name, gradient = max((each.worst_gradient() for each in found), key=_size)
    wrong = {f"value of {output}": value, f"gradient of {name}": gradient}
    said = [f"{what}: error {error:.1e}" for what, error in wrong.items() if not error <= tolerance]
    if check.repeats and not same:
        said.append("two runs have different bits")
    return KernelOutcome(
        check.name,
        dtype,
        "wrong" if said else "right",
        ", ".join(said),
        value if math.isfinite(value) else None,
        gradient if math.isfinite(gradient) else None,
        name,
        tolerance,
        same,
    )


def _agreement(problem: Problem, generator: torch.Generator) -> Agreement:
    """The errors of one problem."""
    return measure_agreement(problem.run, problem.reference, problem.inputs, generator=generator)


def _bits(problem: Problem) -> list[Tensor]:
    """Outputs and gradients, the outputs being their own weights."""
    leaves = {name: x.detach().clone().requires_grad_() for name, x in problem.inputs.items()}
    outputs = list(problem.run(leaves).values())
    kept = [x for x in outputs if x.requires_grad]
    gradients: tuple[Tensor | None, ...] = ()
    if kept:
        weights = [x.detach() for x in kept]
        gradients = torch.autograd.grad(kept, list(leaves.values()), weights, allow_unused=True)
    return [x.detach() for x in (*outputs, *gradients) if x is not None]


def _size(named: tuple[str, float]) -> float:
    """The error of a named one."""
    return named[1]


@contextmanager
def _poisoned() -> Iterator[None]:
    """New memory holds NaN, or the largest whole number: what is not written shows."""
    before = torch.are_deterministic_algorithms_enabled()
    warned = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.use_deterministic_algorithms(before, warn_only=warned)
