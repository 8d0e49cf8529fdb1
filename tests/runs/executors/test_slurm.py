import shutil
from pathlib import Path
from typing import Any

import pytest

from lt2theory.runs import Assignment, SlurmExecutor


def nothing(config: dict[str, Any], folder: Path, threads: int) -> None:
    """Never called."""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cpus": 0}, "cpus: got 0, allowed are numbers >= 1"),
        ({"minutes": 0}, "minutes: got 0, allowed are whole numbers >= 1"),
        ({"at_once": 0}, "at_once: got 0, allowed are numbers >= 1"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SlurmExecutor(**arguments)


def test_without_runs_nothing_is_sent() -> None:
    assert list(SlurmExecutor().carry_out(nothing, [])) == []


@pytest.mark.skipif(shutil.which("srun") is not None, reason="this machine has SLURM")
def test_a_machine_without_slurm_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    executor = SlurmExecutor()
    with pytest.raises(ValueError, match="executor: no SLURM on this machine"):
        list(executor.carry_out(nothing, [Assignment({}, tmp_path / "run")]))


def test_a_job_costs_its_gpus() -> None:
    assert SlurmExecutor(gpus=2).share == 2.0
    assert SlurmExecutor().share == 1.0
