"""The timed step is that of a run; its rows, in one process, in two, and out of memory."""

import json
import math
import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from lt2theory.bench import lm_step
from lt2theory.bench.lm_step import RandomWindows, Setting, bench_lm_step, run_config
from lt2theory.cli import main
from lt2theory.models.flops import step_flops
from lt2theory.training.lm.ranks import Ranks

ROOT = Path(__file__).parents[2]
ALONE = Ranks(0, 1, torch.device("cpu"))
TINY = Setting("byte-1m-full-gdn", batch=2, length=17, dtype="float32")


def test_windows_depend_on_step_and_row_alone() -> None:
    windows = RandomWindows(11, 7)
    both = windows.rows(3, 0, 2)
    for part, whole in zip(windows.rows(3, 1, 2), both, strict=True):
        np.testing.assert_array_equal(part[0], whole[1])
    np.testing.assert_array_equal(both.inputs[:, 1:], both.targets[:, :-1])
    assert both.inputs.shape == both.documents.shape == (2, 7)
    assert both.inputs.max() < 11
    assert not np.array_equal(both.inputs, windows.rows(4, 0, 2).inputs)


def test_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = bench_lm_step([TINY], ALONE, steps=1)
    config = run_config(TINY, 1, 1)
    assert config.model.checkpointing == "loop"
    assert row["processes"] == 1
    assert row["reason"] is None
    # Random ids cannot be told: the loss is about that of equal chances.
    assert row["loss"] == pytest.approx(math.log(258), abs=0.5)
    assert row["tokens_per_second"] == pytest.approx(2 * 17 / row["ms"] * 1e3)
    told = step_flops(config.model, 2, 17) / row["ms"] * 1e3 / 1e12
    assert row["tflops"] == pytest.approx(told)
    assert 0 < row["floor_ms"] < row["ms"] < 1e3 * row["first_s"] * 10


def test_out_of_memory_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: object) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(lm_step, "_measured", fails)
    (row,) = bench_lm_step([TINY], ALONE)
    assert row["reason"] == "out of memory"
    assert "ms" not in row
    two = Ranks(0, 2, torch.device("cpu"))
    with pytest.raises(torch.OutOfMemoryError):
        list(bench_lm_step([TINY], two))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "rows.json"
    argv = ["--presets", "byte-1m-gdn", "--batch", "1", "--length", "9", "--steps", "1"]
    assert main(["bench", "lm-step", *argv, "--device", "cpu", "--json", str(out)]) == 0
    content = json.loads(out.read_text())
    assert content["environment"]["device"] == "cpu"
    assert [row["preset"] for row in content["rows"]] == ["byte-1m-gdn"]
    assert "byte-1m-gdn" in capsys.readouterr().out
    assert main(["bench", "lm-step", "--presets", "byte-1m-gnd", "--device", "cpu"]) == 2
    assert "--presets: 'byte-1m-gnd' is not allowed" in capsys.readouterr().err


@pytest.mark.slow  # processes of their own
@pytest.mark.parametrize("parallel", ["fsdp", "replicate"])
def test_two_processes(parallel: str, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    start = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", port]
    argv = ["bench", "lm-step", "--presets", "byte-1m-full-gdn", "--batch", "1", "--length", "9"]
    argv += ["--steps", "1", "--device", "cpu", "--parallel", parallel]
    ended = subprocess.run(
        [sys.executable, *start, "-m", "lt2theory", *argv, "--json", str(tmp_path / "x.json")],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    (row,) = json.loads((tmp_path / "x.json").read_text())["rows"]
    (alone,) = bench_lm_step([Setting("byte-1m-full-gdn", 2, 9, dtype="float32")], ALONE, steps=1)
    assert row["processes"] == 2
    assert row["loss"] == pytest.approx(alone["loss"], rel=1e-5)
