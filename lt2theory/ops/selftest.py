"""A gradient self-test: whether a kernel that is wrong on some machines is right on this one.

A small problem of the workload's shape class (same kernel, dtype, heads and widths: what a compiler
and an autotuner specialise for) is run forwards and backwards on the same device, and every value
and gradient is compared with the token-by-token reference in float64. The verdict holds for the
process and is kept on disk for the same versions and device.

A pass is strong evidence and no proof: other lengths run the same compiled code, but another
process may autotune to another configuration where Triton's cache was cleared.
"""

import hashlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lt2theory.ops.agreement import measure_agreement
from lt2theory.ops.autocast import own_precision
from lt2theory.ops.factors import Factors
from lt2theory.ops.known_faults import installed_version
from lt2theory.ops.reference import reference_recurrence
from lt2theory.ops.workload import RecurrenceWorkload

Runner = Callable[[Factors, Tensor | None], tuple[Tensor, Tensor]]

# Largest relative error of a tensor (Euclidean norms). FLA's own tests allow 0.02 in half
# precision; float32 is multiplied as TensorFloat-32 in places, as exactly as float16.
TOLERANCES = {torch.float32: 5e-3, torch.float16: 5e-3, torch.bfloat16: 2e-2}

_LENGTH = 131  # two full chunks of 64 and a short one of odd length
_BATCH = 2
_FORMAT = 1  # raised whenever the test itself changes, so that old verdicts lapse


@dataclass(frozen=True)
class ShapeClass:
    """What a verdict holds for.

    Attributes:
        kernel: Name of the kernel.
        device: Device type and index.
        device_name: Name of the device's model.
        dtype: Dtype of the inputs.
        num_heads: Heads.
        key_width: Key width of a head.
        value_width: Value width of a head.
        decay: `none`, `scalar` or `vector`.
        erases: Whether there is a beta.
    """

    kernel: str
    device: str
    device_name: str
    dtype: torch.dtype
    num_heads: int
    key_width: int
    value_width: int
    decay: str
    erases: bool

    @classmethod
    def of(cls, kernel: str, workload: RecurrenceWorkload) -> "ShapeClass":
        """The class of a workload.

        Args:
            kernel: Name of the kernel.
            workload: What is to be computed.

        Returns:
            Its class.
        """
        on_gpu = workload.device == "cuda"
        index = workload.device_index
        return cls(
            kernel=kernel,
            device=f"cuda:{index}" if on_gpu else workload.device,
            device_name=torch.cuda.get_device_name(index) if on_gpu else workload.device,
            dtype=workload.dtype,
            num_heads=workload.num_heads,
            key_width=workload.key_width,
            value_width=workload.value_width,
            decay=workload.decay,
            erases=workload.erases,
        )

    def key(self) -> dict[str, Any]:
        """What has to be the same for a verdict to hold: JSON values, versions among them."""
        named = {**asdict(self), "dtype": str(self.dtype), "format": _FORMAT}
        del named["device"]  # the model counts, not which of several it is
        versions = {name: installed_version(name) for name in ("torch", "triton", "fla-core")}
        return {**named, "versions": versions}


@dataclass(frozen=True)
class Verdict:
    """The outcome of a self-test.

    Attributes:
        passed: Whether every tensor was within its tolerance.
        worst: The tensor with the largest error, or what went wrong.
        error: Its relative error; None where the kernel did not finish.
        tolerance: What was allowed.
    """

    passed: bool
    worst: str
    error: float | None
    tolerance: float

    def __str__(self) -> str:
        outcome = "passed" if self.passed else "failed"
        if self.error is None:
            return f"gradient self-test {outcome}: {self.worst}"
        size = f"relative error {self.error:.1e} of {self.tolerance:.0e} allowed"
        return f"gradient self-test {outcome}: {self.worst} has a {size}"


_VERDICTS: dict[ShapeClass, Verdict] = {}


def find_verdict(shape: ShapeClass, run: Runner) -> Verdict:
    """The verdict on a shape class: known in this process, read from disk, or measured now.

    Args:
        shape: The class.
        run: The kernel on factors and an initial state.

    Returns:
        The verdict.
    """
    if shape not in _VERDICTS:
        verdict = _read(shape)
        if verdict is None:
            verdict = run_self_test(shape, run)
            if verdict.error is not None:  # what did not finish may be a matter of the moment
                _write(shape, verdict)
        _VERDICTS[shape] = verdict
    return _VERDICTS[shape]


def run_self_test(shape: ShapeClass, run: Runner) -> Verdict:
    """Compare a kernel's values and gradients with the float64 reference on the same device.

    Args:
        shape: The class.
        run: The kernel on factors and an initial state.

    Returns:
        The verdict; an exception in the kernel is a failure.
    """
    tolerance = TOLERANCES[shape.dtype]
    generator = torch.Generator().manual_seed(640)
    problem = _make_problem(shape, generator)
    with torch.inference_mode(False), torch.enable_grad(), own_precision(problem["q"].device):
        try:
            agreement = measure_agreement(
                partial(_compute, run),
                partial(_compute, reference_recurrence),
                problem,
                generator=generator,
            )
        except Exception as stop:  # noqa: BLE001 - whatever stops the kernel, it is not usable
            return Verdict(False, f"{type(stop).__name__}: {str(stop)[:200]}", None, tolerance)
    gradients = {f"gradient of {name}": e for name, e in agreement.gradients.items()}
    errors = {**agreement.values, **gradients}
    worst = max(errors, key=lambda name: errors[name])
    error = min(errors[worst], 1e30)  # JSON has no infinity
    return Verdict(agreement.within(tolerance), worst, error, tolerance)


def cache_dir() -> Path:
    """Where verdicts are kept: `LT2_CACHE_DIR`, or the platform's folder for caches.

    Returns:
        The folder, which need not exist.
    """
    if chosen := os.environ.get("LT2_CACHE_DIR"):
        return Path(chosen)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "lt2theory"
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else Path.home() / "AppData" / "Local") / "lt2theory"
    xdg = os.environ.get("XDG_CACHE_HOME")
    return (Path(xdg) if xdg else Path.home() / ".cache") / "lt2theory"


def _make_problem(shape: ShapeClass, generator: torch.Generator) -> dict[str, Tensor]:
    """Random inputs of the class, drawn on the CPU."""
    steps = (_BATCH, _LENGTH, 1, shape.num_heads)

    def normal(*size: int) -> Tensor:
        return torch.randn(*size, generator=generator, dtype=torch.float64)

    # Keys that resemble one another, as positive features do, make erasures matter.
    keys = torch.nn.functional.normalize(normal(*steps, shape.key_width) + 0.5, dim=-1)
    problem = {
        "q": normal(_BATCH, _LENGTH, shape.num_heads, shape.key_width),
        "k": keys,
        "v": normal(*steps, shape.value_width),
        "state": normal(_BATCH, shape.num_heads, shape.key_width, shape.value_width),
    }
    if shape.decay != "none":
        size = (*steps, shape.key_width) if shape.decay == "vector" else steps
        problem["log_decay"] = -0.5 * torch.rand(*size, generator=generator, dtype=torch.float64)
    if shape.erases:
        problem["beta"] = torch.rand(*steps, generator=generator, dtype=torch.float64)
    moved = {name: x.to(shape.device, shape.dtype) for name, x in problem.items()}
    return {**moved, "state": moved["state"].float()}


def _compute(run: Runner, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The output and the final state of named inputs."""
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    factors = Factors(q, k, v, log_decay=inputs.get("log_decay"), beta=inputs.get("beta"))
    output, state = run(factors, inputs["state"])
    return {"output": output, "state": state}


def _path(shape: ShapeClass) -> Path:
    """The file of a class's verdict."""
    name = hashlib.sha256(repr(sorted(shape.key().items())).encode()).hexdigest()[:24]
    return cache_dir() / "selftest" / f"{name}.json"


def _read(shape: ShapeClass) -> Verdict | None:
    """The verdict on disk, or None where there is none that can be trusted."""
    from lt2theory.runs.atomic import read_json

    try:
        stored = read_json(_path(shape))
        verdict = Verdict(**stored["verdict"])
    except (ValueError, KeyError, TypeError):
        return None
    sound = stored.get("class") == shape.key() and isinstance(verdict.passed, bool)
    sound = sound and isinstance(verdict.worst, str) and isinstance(verdict.error, float)
    return verdict if sound and isinstance(verdict.tolerance, float) else None


def _write(shape: ShapeClass, verdict: Verdict) -> None:
    """Keep a verdict; a cache that cannot be written is no reason to stop."""
    from lt2theory.runs.atomic import write_json

    path = _path(shape)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"class": shape.key(), "verdict": asdict(verdict)})
    except OSError:
        return
