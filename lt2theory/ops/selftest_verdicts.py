"""The verdicts of the self-test: what each holds for, and the files that keep them."""

import hashlib
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch

from lt2theory.ops.known_faults import installed_version
from lt2theory.ops.workload import RecurrenceWorkload

_FORMAT = 1  # raised whenever the self-test itself changes, so that old verdicts lapse


@runtime_checkable
class Tested(Protocol):
    """What a verdict holds for; hashable."""

    def key(self) -> dict[str, Any]:
        """What has to be the same for a verdict to hold: JSON values, versions among them."""
        ...


@dataclass(frozen=True)
class ShapeClass:
    """What a verdict on a kernel of the recurrence holds for.

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
        own_write: Whether there is a write strength of its own.
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
    own_write: bool = False

    @classmethod
    def of(cls, kernel: str, workload: RecurrenceWorkload) -> "ShapeClass":
        """The class of a workload.

        Args:
            kernel: Name of the kernel.
            workload: What is to be computed.

        Returns:
            Its class.
        """
        device, model = name_of_device(workload.device, workload.device_index)
        return cls(
            kernel=kernel,
            device=device,
            device_name=model,
            dtype=workload.dtype,
            num_heads=workload.num_heads,
            key_width=workload.key_width,
            value_width=workload.value_width,
            decay=workload.decay,
            erases=workload.erases,
            own_write=workload.own_write,
        )

    def key(self) -> dict[str, Any]:
        """What has to be the same for a verdict to hold: JSON values, versions among them."""
        return named_versions(asdict(self))


def named_versions(named: dict[str, Any]) -> dict[str, Any]:
    """The key of a class.

    Args:
        named: Its fields, a `device` and a `dtype` among them.

    Returns:
        JSON values: the fields but for the device, since the model counts and not which of several
        it is, and the versions that compile a kernel.
    """
    fields = {name: x for name, x in named.items() if name != "device"}
    versions = {name: installed_version(name) for name in ("torch", "triton", "fla-core")}
    return {**fields, "dtype": str(named["dtype"]), "format": _FORMAT, "versions": versions}


def name_of_device(kind: str, index: int) -> tuple[str, str]:
    """What a class says of a device.

    Args:
        kind: Its type.
        index: Which of several GPUs it is.

    Returns:
        Type and index as torch has them, and the name of the model.
    """
    if kind != "cuda":
        return kind, kind
    return f"cuda:{index}", torch.cuda.get_device_name(index)


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


def _path(shape: Tested) -> Path:
    """The file of a class's verdict."""
    name = hashlib.sha256(repr(sorted(shape.key().items())).encode()).hexdigest()[:24]
    return cache_dir() / "selftest" / f"{name}.json"


def read_verdict(shape: Tested) -> Verdict | None:
    """The verdict on disk.

    Args:
        shape: What it is to hold for.

    Returns:
        The verdict, or None where there is none that can be trusted.
    """
    from lt2theory.runs.atomic import read_json

    try:
        stored = read_json(_path(shape))
        verdict = Verdict(**stored["verdict"])
    except (ValueError, KeyError, TypeError):
        return None
    sound = stored.get("class") == shape.key() and isinstance(verdict.passed, bool)
    sound = sound and isinstance(verdict.worst, str) and isinstance(verdict.error, float)
    return verdict if sound and isinstance(verdict.tolerance, float) else None


def write_verdict(shape: Tested, verdict: Verdict) -> None:
    """Keep a verdict; a cache that cannot be written is no reason to stop.

    Args:
        shape: What it holds for.
        verdict: The verdict.
    """
    from lt2theory.runs.atomic import write_json

    path = _path(shape)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"class": shape.key(), "verdict": asdict(verdict)})
    except OSError:
        return
