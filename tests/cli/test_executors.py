"""The flags that say who carries a study out."""

from pathlib import Path

import joblib
import pytest

from lt2theory.cli import main
from lt2theory.cli.executors import ExecutorOptions, executor_of
from lt2theory.cli.study import StudyOptions
from lt2theory.experiments.study_table import read_study_table
from lt2theory.runs import LocalExecutor, RayExecutor, SlurmExecutor

STUDY = ["curriculum", "study", "smoke", "--device", "cpu"]


def test_processes_give_the_table_of_a_study(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [*STUDY, "--cell", "*beta1*", "--executor", "local", "--at-once", "1"]
    assert main([*command, "--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == ["1 of 1 cells are done", str(tmp_path)]
    assert set(read_study_table(tmp_path)["status"]) == {"done"}
    assert main([*command, "--out", str(tmp_path)]) == 0


def test_what_a_cell_gets_by_default_follows_the_device() -> None:
    cpu, cuda = StudyOptions(device="cpu"), StudyOptions(device="cuda")
    assert executor_of(ExecutorOptions(), cpu) is None
    local = executor_of(ExecutorOptions(executor="local"), cpu)
    assert isinstance(local, LocalExecutor)
    assert local.workers == joblib.cpu_count()
    for study, gpus in ((cpu, 0.0), (cuda, 0.25)):
        ray = executor_of(ExecutorOptions(executor="ray"), study)
        assert isinstance(ray, RayExecutor)
        assert (ray.address, ray.cpus, ray.gpus, ray.retries) == (None, 1, gpus, 3)
    for study, whole in ((cpu, 0), (cuda, 1)):
        slurm = executor_of(ExecutorOptions(executor="slurm"), study)
        assert isinstance(slurm, SlurmExecutor)
        assert (slurm.gpus, slurm.minutes, slurm.at_once) == (whole, 60, 64)


def test_flags_reach_the_executor() -> None:
    options = ExecutorOptions(executor="slurm", gpus=2.0, retries=0, sbatch={"partition": "a"})
    slurm = executor_of(options, StudyOptions(minutes=1.5, at_once=3))
    assert isinstance(slurm, SlurmExecutor)
    assert (slurm.gpus, slurm.retries, slurm.minutes, slurm.at_once) == (2, 0, 2, 3)
    assert slurm.options == {"partition": "a"}
    ray = executor_of(ExecutorOptions(executor="ray", gpus=0.0, cpus=2), StudyOptions())
    assert isinstance(ray, RayExecutor)
    assert (ray.gpus, ray.cpus) == (0.0, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--cpus", "2"], "--cpus: got 2 with --executor device, allowed with ray and slurm"),
        (["--executor", "ray", "--minutes", "3"], "--minutes: got 3.0 with --executor ray"),
        (["--executor", "local", "--sbatch", "a=b"], "--sbatch: got {'a': 'b'} with --executor"),
        (["--executor", "slurm", "--gpus", "0.5"], "--gpus: got 0.5 with --executor slurm"),
        (["--executor", "ray", "--cpus", "0"], "cpus: got 0, allowed are numbers >= 1"),
        (["--executor", "dask"], "dask"),
    ],
)
def test_bad_usage(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*STUDY, *arguments, "--out", str(tmp_path / "s")]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "s").exists()
