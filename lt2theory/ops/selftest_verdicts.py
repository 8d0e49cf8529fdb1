"""The verdicts of the self-test, and the files that keep them."""

import hashlib
import os
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


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


def _path(key: dict[str, Any]) -> Path:
    """The file of a verdict."""
    name = hashlib.sha256(repr(sorted(key.items())).encode()).hexdigest()[:24]
    return cache_dir() / "selftest" / f"{name}.json"


def read_verdict(key: dict[str, Any]) -> Verdict | None:
    """The verdict on disk.

    Args:
        key: What it is to hold for: JSON values, versions among them.

    Returns:
        The verdict, or None where there is none that can be trusted.
    """
    from lt2theory.runs.atomic import read_json

    try:
        stored = read_json(_path(key))
        verdict = Verdict(**stored["verdict"])
    except (ValueError, KeyError, TypeError):
        return None
    sound = stored.get("class") == key and isinstance(verdict.passed, bool)
    sound = sound and isinstance(verdict.worst, str) and isinstance(verdict.error, float)
    return verdict if sound and isinstance(verdict.tolerance, float) else None


def write_verdict(key: dict[str, Any], verdict: Verdict) -> None:
    """Keep a verdict; a cache that cannot be written is no reason to stop.

    Args:
        key: What it holds for.
        verdict: The verdict.
    """
    from lt2theory.runs.atomic import write_json

    path = _path(key)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"class": key, "verdict": asdict(verdict)})
    except OSError:
        return
