"""Measures one case: an op's values and gradients on a backend, beside the reference in float64."""

import json
import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import torch
from pydantic import TypeAdapter, ValidationError
from torch import Tensor

from lt2theory.bench.doctor.cases import DTYPES, Case
from lt2theory.bench.doctor.choices import explain
from lt2theory.bench.doctor.inputs import (
    SEED,
    Prepared,
    cast,
    prepare,
    split,
    tensors_of,
    with_tensors,
)
from lt2theory.ops import run_attention, run_factors, run_normalised
from lt2theory.ops.agreement import measure_agreement
from lt2theory.ops.factors import AttentionInputs, Factors
from lt2theory.ops.selftest import TOLERANCES

# Of plain torch. Measured on a CPU at width 64 and 131 tokens: 5e-7 in float32 and 1e-15 in float64
# at most, but 1e-5 and 2e-14 for the mLSTM, whose division by a small |n^T q| magnifies rounding;
# 10 times that is allowed, and more. In half precision fused attention multiplies what it is given,
# as kernels do (4e-3 measured in bfloat16), so their tolerances hold for both.
TORCH_TOLERANCES = {**TOLERANCES, torch.float64: 1e-12, torch.float32: 1e-4}

PAST = 16  # tokens before a continued case

Verdict = Literal["right", "refused", "wrong", "crashed", "hung"]

FAILURES = ("wrong", "crashed", "hung")
"""Verdicts that make the doctor's exit code 1."""


@dataclass(frozen=True)
class Outcome:
    """What a case came to.

    Attributes:
        case: The case.
        verdict: What it came to.
        reason: Why, in one line: the backend's refusal, the error, or what ran.
        value_error: Largest relative error of an output; None where none was measured or it is
            not finite.
        gradient_error: Likewise, of a gradient.
        worst_gradient: The input whose gradient that is.
        tolerance: What was allowed; None where nothing was measured.
        seconds: Wall-clock time, compiling included.
    """

    case: Case
    verdict: Verdict
    reason: str
    value_error: float | None = None
    gradient_error: float | None = None
    worst_gradient: str = ""
    tolerance: float | None = None
    seconds: float = 0.0

    @property
    def failed(self) -> bool:
        """Whether something is broken; a refusal is not."""
        return self.verdict in FAILURES

    def to_json(self) -> dict[str, Any]:
        """One flat object: the case's fields beside the outcome's."""
        values = asdict(self)
        return {**values.pop("case"), **values}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "Outcome":
        """The outcome that `to_json` wrote.

        Args:
            values: Its fields.

        Returns:
            The outcome.

        Raises:
            ValueError: If a field is missing, unknown or of another kind.
        """
        names = Case.__dataclass_fields__
        unknown = [name for name in values if name not in {*names, *cls.__dataclass_fields__}]
        if unknown:
            raise ValueError(f"no outcome of a case: {', '.join(unknown)}: no such field")
        case = {name: values[name] for name in names if name in values}
        rest = {name: value for name, value in values.items() if name not in names}
        try:
            return _OUTCOME.validate_json(json.dumps({**rest, "case": case}), strict=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = str(first["loc"][-1])
            found = "" if first["type"] == "missing" else f"{first['input']!r} is not allowed, "
            raise ValueError(f"no outcome of a case: {field}: {found}{first['msg']}") from error


_OUTCOME = TypeAdapter(Outcome)


def measure(case: Case, device: str) -> Outcome:
    """Run one case, forwards and backwards.

    Args:
        case: What to run.
        device: Where.

    Returns:
        The outcome; an exception of the backend is one too.
    """
    begin = time.perf_counter()
    try:
        outcome = _measure(case, device)
    except Exception as error:  # noqa: BLE001 - whatever a kernel raises is what is asked for
        said = " ".join(str(error).split())[:300]
        outcome = Outcome(case, "crashed", f"{type(error).__name__}: {said}")
    return replace(outcome, seconds=round(time.perf_counter() - begin, 3))


def tolerance_of(case: Case) -> float:
    """Largest relative error that a case may have.

    Args:
        case: The case.

    Returns:
        The tolerance: for kernels that of their self-test, for plain torch its own.
    """
    in_torch = case.backend in ("reference", "chunked")
    table = TORCH_TOLERANCES if in_torch else {**TORCH_TOLERANCES, **TOLERANCES}
    return table[DTYPES[case.dtype]]


def _measure(case: Case, device: str) -> Outcome:
    problem, inputs, log_max = _problem(case, device)
    try:
        # A backend may choose by whether gradients are needed.
        recorded = {name: x.detach().requires_grad_() for name, x in tensors_of(problem).items()}
        choice = explain(with_tensors(problem, recorded), case.backend)
    except ValueError as refusal:
        return Outcome(case, "refused", str(refusal).split(": ", 1)[-1])

    def run(tensors: Mapping[str, Tensor], backend: str) -> Mapping[str, Tensor]:
        return _run(problem, tensors, log_max, backend)

    agreement = measure_agreement(
        lambda tensors: run(tensors, case.backend),
        lambda tensors: run(tensors, "reference"),
        inputs,
        generator=torch.Generator().manual_seed(SEED + 2),
    )
    tolerance = tolerance_of(case)
    name, gradient = agreement.worst_gradient()
    output, value = agreement.worst_value()
    right = agreement.within(tolerance)
    wrong = {f"value of {output}": value, f"gradient of {name}": gradient}
    bad = [f"{what}: error {error:.1e}" for what, error in wrong.items() if not error <= tolerance]
    return Outcome(
        case,
        "right" if right else "wrong",
        choice.reason if right else f"{', '.join(bad)} ({choice.reason})",
        value if math.isfinite(value) else None,
        gradient if math.isfinite(gradient) else None,
        name,
        tolerance,
    )


def _problem(case: Case, device: str) -> tuple[Prepared, dict[str, Tensor], Tensor | None]:
    """The inputs of the op, the tensors that get a gradient, and a normaliser's starting point."""
    continued = case.start == "continued"
    prepared = prepare(case.mixer, width=case.width, length=case.length + PAST * continued)
    dtype = DTYPES[case.dtype]
    if not continued:
        moved = cast(prepared, dtype, device)
        return moved, tensors_of(moved), None
    past, rest = split(prepared, PAST)
    moved = cast(rest, dtype, device)
    inputs = tensors_of(moved)
    log_max: Tensor | None = None
    if isinstance(past, Factors):
        state, log_max = _state_after(past)
        kept = dtype if dtype == torch.float64 else torch.float32
        inputs["initial_state"] = state.to(device, kept)
        log_max = None if log_max is None else log_max.to(device)
    return moved, inputs, log_max


def _state_after(past: Factors) -> tuple[Tensor, Tensor | None]:
    """The state after the first tokens, by the reference."""
    if past.log_write is not None:
        _, state, log_max = run_normalised(past, backend="reference")
        return state, log_max
    return run_factors(past, backend="reference")[1], None


def _run(
    problem: Prepared, inputs: Mapping[str, Tensor], log_max: Tensor | None, backend: str
) -> dict[str, Tensor]:
    """The op on other tensors of the same shapes; with its state where it continues one."""
    tensors = {name: x for name, x in inputs.items() if name != "initial_state"}
    if isinstance(problem, AttentionInputs):
        return {"o": run_attention(with_tensors(problem, tensors), backend=backend)}
    factors = with_tensors(problem, tensors)
    state = inputs.get("initial_state")
    if factors.log_write is not None:
        o, after, _ = run_normalised(
            factors, initial_state=state, initial_log_max=log_max, backend=backend
        )
    else:
        o, after = run_factors(factors, initial_state=state, backend=backend)
    return {"o": o} if state is None else {"o": o, "state": after}
