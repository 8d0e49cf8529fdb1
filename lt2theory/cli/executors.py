"""Where the runs of a study go, as flags."""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from lt2theory.cli.errors import UsageError

if TYPE_CHECKING:
    from lt2theory.cli.study import StudyOptions
    from lt2theory.runs import Executor

Name = Literal["device", "local", "ray", "slurm"]
BELONGS: dict[str, tuple[str, ...]] = {
    "minutes": ("device", "slurm"),
    "at_once": ("device", "local", "slurm"),
    "cpus": ("ray", "slurm"),
    "gpus": ("ray", "slurm"),
    "retries": ("ray", "slurm"),
    "ray_address": ("ray",),
    "sbatch": ("slurm",),
}
"""Option -> the executors that heed it."""


@dataclass(frozen=True, kw_only=True)
class ExecutorOptions:
    """Who carries the cells out."""

    executor: Name = "device"
    """device: threads of this process that share its GPU, in sessions. local: a process a cell,
    each with its share of this machine's cores. ray: a Ray cluster. slurm: arrays of SLURM jobs.
    Ray and SLURM need the extra `cluster`, and --out on a file system that all nodes see."""
    cpus: int | None = None
    """Cores of a cell, with ray and slurm; by default 1."""
    gpus: float | None = None
    """GPUs of a cell, with ray and slurm; with ray also a part of one. By default what --device
    cuda needs: a quarter of one with ray, one with slurm."""
    retries: int | None = None
    """How often a cell goes on elsewhere after its worker has died, or its SLURM job has run out of
    time; by default 3."""
    ray_address: str | None = None
    """HOST:PORT of the Ray cluster; by default one of this machine alone is started, which listens
    on 127.0.0.1."""
    sbatch: dict[str, Any] = field(default_factory=dict)
    """Further options of sbatch, such as partition=gpu account=mine."""


def executor_of(options: ExecutorOptions, study: "StudyOptions") -> "Executor | None":
    """The executor that the flags ask for.

    Args:
        options: The flags of executors.
        study: Those of the study.

    Returns:
        The executor; None for `device`, which works in this process.

    Raises:
        UsageError: A flag does not belong to the executor.
    """
    given = {**vars(options), "minutes": study.minutes, "at_once": study.at_once}
    for name, owners in BELONGS.items():
        if given[name] not in (None, {}) and options.executor not in owners:
            raise UsageError(
                f"--{name.replace('_', '-')}: got {given[name]} with --executor "
                f"{options.executor}, allowed with {' and '.join(owners)}"
            )
    if options.executor == "device":
        return None
    if options.executor == "local":
        return _local(study)
    return _ray(options, study) if options.executor == "ray" else _slurm(options, study)


def _local(study: "StudyOptions") -> "Executor":
    import joblib

    from lt2theory.experiments.costs import AT_ONCE
    from lt2theory.runs import LocalExecutor

    cores = joblib.cpu_count()
    return LocalExecutor(
        study.at_once or (min(AT_ONCE, cores) if study.device == "cuda" else cores)
    )


def _ray(options: ExecutorOptions, study: "StudyOptions") -> "Executor":
    from lt2theory.experiments.costs import AT_ONCE
    from lt2theory.runs import RayExecutor

    needed = 1 / AT_ONCE if study.device == "cuda" else 0.0
    return RayExecutor(
        options.ray_address,
        gpus=needed if options.gpus is None else options.gpus,
        **_given(cpus=options.cpus, retries=options.retries),
    )


def _slurm(options: ExecutorOptions, study: "StudyOptions") -> "Executor":
    from lt2theory.runs import SlurmExecutor

    gpus = float(study.device == "cuda") if options.gpus is None else options.gpus
    if gpus != int(gpus):
        raise UsageError(f"--gpus: got {gpus} with --executor slurm, allowed are whole numbers")
    return SlurmExecutor(
        gpus=int(gpus),
        options=options.sbatch,
        **_given(
            cpus=options.cpus,
            minutes=None if study.minutes is None else math.ceil(study.minutes),
            at_once=study.at_once,
            retries=options.retries,
        ),
    )


def _given(**options: int | None) -> dict[str, Any]:
    """Those that were given; of the others the executor has defaults."""
    return {name: value for name, value in options.items() if value is not None}
