"""What a run ran on: versions, platform, threads, source revision; no host or user names."""

import importlib.metadata
import platform
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import joblib

from lt2theory.runs.atomic import read_json, write_json
from lt2theory.runs.revision import source_revision

ENVIRONMENT = "environment.json"
PACKAGES = (
    "lt2theory", "torch", "numpy", "scipy", "sympy", "pydantic", "pandas", "pyarrow", "safetensors",
    "flash-linear-attention", "triton",
)  # fmt: skip
"""Packages whose version can change a result."""
UNKNOWN = "unknown"
"""The source of a run that does not know its commit."""


def capture(*, threads: int, device: str = "cpu") -> dict[str, Any]:
    """Describe this process's environment.

    Args:
        threads: Threads that a tensor operation may use; part of the environment, since the order
            of a floating-point sum depends on it.
        device: The device's name, such as "cpu" or the GPU's product name.

    Returns:
        Plain JSON values: python, platform, cores, threads, device, source, packages.
    """
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": joblib.cpu_count(),
        "threads": threads,
        "device": device,
        "source": source_revision(),
        "packages": {name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def record(folder: Path, environment: Mapping[str, Any], *, step: int) -> list[str]:
    """Note in a run's environment.json what it runs on; warn if it began under something else.

    The file holds `created`, the first environment, and `resumed`, a list with `step`,
    `environment` and `changes` for every later session that differed from the one before it.

    Args:
        folder: The run's folder.
        environment: What `capture` returns now.
        step: Optimiser steps done before this session.

    Returns:
        The differences from the session before, as `differences` words them.
    """
    path = folder / ENVIRONMENT
    if not path.exists():
        write_json(path, {"created": dict(environment), "resumed": []})
        return []
    found = read_record(path)
    sessions = found["resumed"]
    before = sessions[-1]["environment"] if sessions else found["created"]
    changes = differences(before, environment)
    if changes:
        sessions.append({"step": step, "environment": dict(environment), "changes": changes})
        write_json(path, found)
        warnings.warn(
            f"{folder} is resumed at step {step} under another environment, so its numbers may "
            f"differ from an undisturbed run's: {'; '.join(changes)}",
            stacklevel=2,
        )
    return changes


def read_record(path: Path) -> dict[str, Any]:
    """Read an environment.json.

    Args:
        path: The file that `record` wrote.

    Returns:
        `created` and `resumed`, as `record` describes them.

    Raises:
        ValueError: The file cannot be read, or holds something else.
    """
    found = read_json(path)
    resumed = found.get("resumed")
    sessions = resumed if isinstance(resumed, list) else [None]
    kept = [s.get("environment") if isinstance(s, dict) else None for s in sessions]
    if not all(isinstance(entry, dict) for entry in (found.get("created"), *kept)):
        raise ValueError(f"{path} is damaged: it does not hold the environments of a run")
    return found


def last_environment(folder: Path) -> dict[str, Any]:
    """What the last session of a run ran on.

    Args:
        folder: The run's folder.

    Returns:
        As `capture` told it; empty where the run does not say.

    Raises:
        ValueError: Its environment.json is damaged.
    """
    path = folder / ENVIRONMENT
    if not path.exists():
        return {}
    found = read_record(path)
    last: dict[str, Any] = (
        found["resumed"][-1]["environment"] if found["resumed"] else found["created"]
    )
    return last


def sources(folder: Path) -> str:
    """The commits that the sessions of a run stood at.

    Args:
        folder: The run's folder.

    Returns:
        Each once, in order, joined by ", "; `UNKNOWN` stands for a session that does not say, such
        as one of an archive without git.

    Raises:
        ValueError: Its environment.json is damaged.
    """
    path = folder / ENVIRONMENT
    if not path.exists():
        return UNKNOWN
    found = read_record(path)
    sessions = [found["created"], *(session["environment"] for session in found["resumed"])]
    return ", ".join(dict.fromkeys(str(each.get("source") or UNKNOWN) for each in sessions))


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Where two environments differ.

    Args:
        before: What `capture` returned earlier.
        now: What it returns at present.

    Returns:
        One line a difference, such as "torch: 2.12.0 -> 2.13.0"; empty if they agree.
    """
    old, new = _flat(before), _flat(now)
    names = [*new, *(name for name in old if name not in new)]
    return [
        f"{name}: {old.get(name)} -> {new.get(name)}"
        for name in names
        if old.get(name) != new.get(name)
    ]


def _flat(environment: Mapping[str, Any]) -> dict[str, Any]:
    packages = environment.get("packages", {})
    return {key: value for key, value in environment.items() if key != "packages"} | dict(packages)
