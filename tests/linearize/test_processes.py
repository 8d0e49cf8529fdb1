"""A linearization shared by two processes over gloo: the numbers of one."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lt2theory.linearize.engine import run_recipe
from lt2theory.linearize.results import load_student
from lt2theory.training.lm import Execution
from tests.linearize.runs import make_recipe, make_sources

pytestmark = pytest.mark.slow  # processes of their own, each with torch to import

ROOT = Path(__file__).parents[2]


def in_two(folder: Path) -> list[tuple[int, str]]:
    """Exit code and last words of each process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    workers = []
    for rank in range(2):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "MASTER_PORT": port}
        own |= {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-W", "ignore", "-m", "tests.linearize.shared", str(folder)]
        pipe = subprocess.PIPE
        workers.append(
            subprocess.Popen(
                command, cwd=ROOT, env=os.environ | own, stdout=pipe, stderr=pipe, text=True
            )
        )
    said = [worker.communicate(timeout=200) for worker in workers]
    return [
        (worker.returncode, text[1][-2000:]) for worker, text in zip(workers, said, strict=True)
    ]


def test_two_processes_give_the_numbers_of_one(tmp_path: Path) -> None:
    sources = make_sources(tmp_path / "sources")
    alone = run_recipe(
        make_recipe(dtype="float64"), Execution(), sources, folder=tmp_path / "alone"
    )
    for code, text in in_two(tmp_path):
        assert code == 0, text
    both = json.loads((tmp_path / "both" / "summary.json").read_text())
    for stage, other in zip(alone.stages, both["stages"], strict=True):
        environment = (tmp_path / "both" / other["folder"] / "environment.json").read_text()
        created = json.loads(environment)["created"]
        aligned = stage.name in ("attention", "hidden")
        assert (created["processes"], created["parallel"]) == (
            2,
            "replicate" if aligned else "fsdp",
        )
        assert other["run"]["loss"] == pytest.approx(stage.run.loss, rel=1e-9)
        assert stage.recovery is not None
        assert other["recovery"]["kl"] == pytest.approx(stage.recovery.kl, rel=1e-8)
    weights = load_student(tmp_path / "both").state_dict()
    for name, value in load_student(tmp_path / "alone").state_dict().items():
        torch.testing.assert_close(weights[name], value, rtol=1e-8, atol=1e-10)
