"""Many curriculum runs: a study, several runs at a time, here or on a cluster."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
import torch

from lt2theory.runs import Executor, LocalExecutor, Progress, Study, run_study, study_run
from lt2theory.training.config import CurriculumConfig, resolve
from lt2theory.training.curriculum import KIND, run_curriculum
from lt2theory.training.runtime import Runtime, torch_threads
from lt2theory.training.signals import termination_interrupts


def run_many(
    configs: Iterable[CurriculumConfig],
    root: Path,
    *,
    workers: int = 1,
    executor: Executor | None = None,
    progress: Progress | None = None,
    overwrite: bool = False,
) -> pd.DataFrame:
    """Carry out runs as a study: those that are done are skipped, unfinished ones continued.

    Args:
        configs: The runs; no two may be equal.
        root: The study's folder.
        workers: Runs at a time, each in a process of its own with its share of the cores; one
            worker runs in this process and reports every run's progress too.
        executor: Where the runs are carried out instead.
        progress: Told when a run ends.
        overwrite: Replace the manifest of a study of other runs; finished runs are kept.

    Returns:
        The study's tidy table (`lt2theory.runs.tables`), which is also its results.parquet.

    Raises:
        ValueError: A configuration does not fit its task or the machine, or the folder holds a
            study of other runs.
        StudyError: Runs failed; the others are done.
        Interrupted: SIGINT or SIGTERM came; the same call goes on.
    """
    here = None if executor else LocalExecutor(workers)
    resolved = [resolve(config) for config in configs]
    if here is not None:
        _check_machine(resolved, workers)
    runs = [study_run(config.to_json(), config.identity()) for config in resolved]
    study = Study.create(root, runs, kind=KIND, overwrite=overwrite)
    inner = progress if here is not None and workers == 1 else None
    with termination_interrupts():
        run_one = partial(run_assigned, progress=inner)
        return run_study(study, run_one, executor=executor or here, progress=progress)


def run_assigned(
    config: dict[str, Any], folder: Path, threads: int, *, progress: Progress | None = None
) -> None:
    """Carry out, or continue, one curriculum run that an executor has handed out.

    Args:
        config: Its configuration as plain JSON values.
        folder: Its folder.
        threads: Threads that it may use.
        progress: Told how far the run is.
    """
    with torch_threads(min(threads, torch.get_num_threads())):
        run_curriculum(CurriculumConfig.model_validate(config), folder, progress=progress)


def _check_machine(configs: Iterable[CurriculumConfig], workers: int) -> None:
    for config in configs:
        Runtime.of(config.device, config.dtype)
        wanted = workers * (config.threads or 1)
        if workers > 1 and wanted > joblib.cpu_count():
            raise ValueError(
                f"threads: got {config.threads} with {workers} workers, allowed are at most "
                f"{joblib.cpu_count()} threads in all (the cores of this machine)"
            )
