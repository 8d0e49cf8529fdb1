"""The machine and the versions that a measurement holds for."""

import shutil
import subprocess
from typing import Any

import torch

from lt2theory.ops.factors import Factors
from lt2theory.ops.known_faults import KNOWN_FAULTS, KnownFault, installed_version
from lt2theory.ops.workload import RecurrenceWorkload
from lt2theory.runs.environment import capture


def describe_environment(device: str) -> dict[str, Any]:
    """Versions, device and driver.

    Args:
        device: `cpu`, `cuda` or `cuda:N`.

    Returns:
        Plain JSON values: what `runs.environment.capture` notes, and capability, architecture,
        cuda (what torch was built for), driver, and the versions of fla-core and einops.
    """
    chosen = torch.device(device)
    on_gpu = chosen.type == "cuda"
    name = torch.cuda.get_device_name(chosen) if on_gpu else device
    found = capture(threads=1, device=name)  # `doctor` gives its processes one
    extra = {package: installed_version(package) or None for package in ("fla-core", "einops")}
    capability = torch.cuda.get_device_capability(chosen) if on_gpu else ()
    return {
        **found,
        "packages": {**found["packages"], **extra},
        "device_type": chosen.type,
        "capability": ".".join(map(str, capability)) or None,
        "architecture": _architecture(chosen),
        "cuda": torch.version.cuda,
        "driver": _driver() if on_gpu else None,
    }


def faults_here(environment: dict[str, Any]) -> tuple[KnownFault, ...]:
    """The rows of the table of known faults that concern this machine.

    Args:
        environment: What `describe_environment` returned.

    Returns:
        The rows; none without a GPU and FLA.
    """
    packages = environment["packages"]
    triton, fla = packages["triton"] or "", packages["fla-core"] or ""
    if environment["device_type"] != "cuda" or not (triton and fla):
        return ()
    return tuple(
        fault
        for fault in KNOWN_FAULTS
        if (not fault.architectures or environment["architecture"] in fault.architectures)
        and triton in fault.triton
        and fla in fault.fla
    )


def _architecture(device: torch.device) -> str:
    """Family of the GPU as the ops name it, "" without one."""
    one = torch.zeros(1, 1, 1, 1, device=device)
    workload = RecurrenceWorkload.of(Factors(one, one.unsqueeze(2), one.unsqueeze(2)))
    return workload.architecture


def _driver() -> str | None:
    """Version of NVIDIA's driver, where its tool is there to ask."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None
    command = [tool, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip().split("\n")[0] or None
