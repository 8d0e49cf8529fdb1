import signal
from pathlib import Path
from typing import Any

import pytest

from lt2theory.runs import Assignment, RayExecutor
from lt2theory.training.many import run_assigned
from tests.listening import addresses
from tests.ray_here import ray_here


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cpus": 0}, "cpus: got 0, allowed are numbers >= 1"),
        ({"gpus": -0.5}, r"gpus: got -0\.5, allowed are numbers >= 0"),
        ({"gpus": 1.5}, r"gpus: got 1\.5, allowed are parts of one GPU and whole numbers"),
        ({"retries": -1}, "retries: got -1, allowed are numbers >= 0"),
        ({"address": "auto"}, "address: got 'auto', allowed is HOST:PORT"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RayExecutor(**arguments)


def test_a_run_costs_its_part_of_a_gpu() -> None:
    assert RayExecutor(gpus=0.25).share == 0.25
    assert RayExecutor().share == 1.0


def test_without_runs_nothing_is_started() -> None:
    assert list(RayExecutor("192.0.2.1:6379").carry_out(run_assigned, [])) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_of_this_machine_listens_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray_here(monkeypatch)
    before = signal.getsignal(signal.SIGTERM)
    assignments = [Assignment({}, tmp_path / "absent" / "run")]
    with pytest.raises(ValueError, match=r"cpus: got 100000, allowed are at most \d+ \("):
        next(RayExecutor(cpus=100_000).carry_out(run_assigned, assignments))
    for ending in RayExecutor().carry_out(run_assigned, assignments):
        assert "absent is not there on host" in str(ending.fault)
        assert addresses() == {"127.0.0.1"}
        assert signal.getsignal(signal.SIGTERM) == before
    assert addresses() == set()
