"""A recipe's run with graphs in one process, continued by the same command under torchrun."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lt2theory.cli import main
from lt2theory.training.lm import Execution, load_lm
from lt2theory.training.lm.checks import shared_execution
from lt2theory.training.lm.step import LmStepper
from lt2theory.training.text import Corpus

ROOT = Path(__file__).parents[3]
TINY = """
    train --recipe byte-10m-8min --device cpu --dtype float64 --steps 6 --batch-size 4
    --sequence-length 33 --evaluate-every 6 --log-every 1 --model.vocab-size 258 --model.width 16
    --model.num-heads 2 --model.num-layers 2 --model.ffn-width 24 --model.pattern gdn,full
    --model.backend chunked --optimiser.warmup-steps 2 --stability.measure-every 0
"""


def numbers(folder: Path) -> list[float]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [value for line in lines for value in json.loads(line)["metrics"].values()]


def torchrun(argv: list[str]) -> subprocess.CompletedProcess[str]:
    """The command in two processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    start = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", port]
    command = [sys.executable, *start, "-m", "lt2theory", *argv]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=200, check=False
    )


@pytest.mark.slow  # processes of their own, each with torch to import
def test_one_process_with_graphs_then_two(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [*TINY.split(), "--data", str(corpus.folder), "--out"]
    assert main([*command, str(tmp_path / "alone")]) == 0
    apply, taken = LmStepper.apply, []

    def apply_and_signal(self: LmStepper, rate: float) -> None:
        apply(self, rate)
        taken.append(type(self).__name__)
        if len(taken) == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(LmStepper, "apply", apply_and_signal)
        assert main([*command, str(tmp_path / "run")]) == 130
    assert set(taken) == {"GraphLmStepper"}
    ended = torchrun([*command, str(tmp_path / "run")])
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith(f"{tmp_path / 'run'}: finished, 6 steps, ")
    assert ended.stderr.count("cuda_graph: True is for one process, there are 2") == 1
    resumed = json.loads((tmp_path / "run" / "environment.json").read_text())["resumed"]
    assert [session["step"] for session in resumed] == [3]
    assert "processes: 1 -> 2" in resumed[0]["changes"]
    assert numbers(tmp_path / "run") == pytest.approx(numbers(tmp_path / "alone"), rel=1e-6)
    weights = load_lm(tmp_path / "alone")[0].state_dict()
    for name, value in load_lm(tmp_path / "run")[0].state_dict().items():
        torch.testing.assert_close(value, weights[name], rtol=1e-5, atol=1e-7)


def test_graphs_are_for_one_process() -> None:
    graphs = Execution(cuda_graph=True)
    assert shared_execution(graphs, 1, tell=True) is graphs
    assert not shared_execution(graphs, 2, tell=False).cuda_graph
    with pytest.warns(UserWarning, match="is for one process, there are 2"):
        shared_execution(graphs, 2, tell=True)
