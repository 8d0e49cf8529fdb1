"""Presets through all phases on a CPU; processes that die or hang; sessions; the command."""

import json
import math
import time
from pathlib import Path
from typing import Any

import pytest

from lt2theory.bench import presets as module
from lt2theory.bench.efficiency_file import left_to_do
from lt2theory.bench.presets import (
    KEY,
    Job,
    Way,
    full_scale_presets,
    measure_job,
    measure_presets,
    preset_table,
)
from lt2theory.bench.presets_worker import answer
from lt2theory.cli import main
from lt2theory.models import presets
from lt2theory.models.parameters import parameter_count

CPU = Way("cpu", steps=2, backend="auto")
TINY = "toy-full-gdn"


def test_every_full_scale_preset_is_named_once() -> None:
    names = full_scale_presets()
    scale = {name for name, config in presets().items() if 1.1e9 < parameter_count(config) < 2e9}
    assert set(names) == scale
    assert len(names) == len(scale)
    assert names[0] == "lt2-1.3b-full"


@pytest.mark.parametrize("phase", ["prefill", "decode", "train"])
def test_a_row(phase: Any) -> None:
    row = measure_job(Job(TINY, phase, 2, 24), CPU)
    tokens = 2 * (1 if phase == "decode" else 24)
    assert row["tokens_per_second"] == pytest.approx(1e3 * tokens / row["ms"])
    assert 0 < row["floor_ms"] < row["ms"]
    assert row["parameters_m"] == pytest.approx(parameter_count(presets()[TINY]) / 1e6)
    assert row["peak_gib"] is None
    paths = {"prefill": "pieces of 24", "decode": "graph", "train": "2 windows at once"}
    assert row["path"] == paths[phase]
    json.dumps(row, allow_nan=False)


def test_windows_that_do_not_fit_are_run_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def steps(settings: Any, *_: Any, **__: Any) -> Any:
        tried.append(settings[0].micro_batch)
        fits = settings[0].micro_batch < 3
        yield {"reason": None if fits else "out of memory", "ms": 1.0 if fits else None}

    monkeypatch.setattr(module, "bench_lm_step", steps)
    assert measure_job(Job(TINY, "train", 8, 24), CPU)["path"] == "2 windows at once"
    assert tried == [8, 4, 2]
    monkeypatch.setattr(
        module, "bench_lm_step", lambda *_, **__: iter([{"reason": "out of memory"}])
    )
    row = measure_job(Job(TINY, "train", 2, 24), CPU)
    assert (row["ms"], row["reason"]) == (None, "out of memory")


def test_what_a_job_raises_is_its_reason() -> None:
    row = answer({"preset": "no", "phase": "decode", "batch": 1, "length": 8}, {"device": "cpu"})
    assert row["reason"].startswith("ValueError: preset: 'no'")


@pytest.mark.slow  # processes of their own
def test_a_process_that_dies_costs_one_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fragile.py").write_text(
        "import os, signal, sys\n"
        "from lt2theory.bench import presets, presets_worker\n"
        "whole = presets.measure_job\n"
        "def measured(job, way):\n"
        "    if job.phase == 'decode':\n"
        "        os.kill(os.getpid(), signal.SIGABRT)\n"
        "    return whole(job, way)\n"
        "presets.measure_job = measured\n"
        "presets_worker.main()\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(module, "WORKER", "fragile")
    jobs = [Job(TINY, phase, 1, 16) for phase in ("prefill", "decode", "train")]
    first, dead, last = measure_presets(jobs, CPU, until=math.inf)
    assert "SIGABRT" in dead["reason"]
    assert dead["phase"] == "decode"
    assert first["ms"] > 0
    assert last["ms"] > 0
    rows = list(measure_presets(jobs, CPU, until=time.monotonic()))
    assert len(rows) == 1


def test_a_table() -> None:
    numbers = {"ms": 3.0, "floor_ms": 2.0, "peak_gib": 1.5, "path": "fused", "reason": None}
    rows = [
        {"preset": "a", "phase": "decode", **numbers},
        {"preset": "a", "phase": "train", "reason": "hung after 3 s"},
        {"preset": "b", "phase": "decode", "reason": "out of memory", "ms": None},
    ]
    table = preset_table(rows).set_index("preset")
    assert table.loc["a", ["decode_ms", "decode_ratio", "decode_path"]].tolist() == [
        3,
        1.5,
        "fused",
    ]
    assert table["reason"].tolist() == ["train: hung after 3 s", "decode: out of memory"]


@pytest.mark.slow  # processes of their own
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "rows.json"
    sizes = "--prefill 1 16 --decode 2 16 --train 2 16 --steps 1 --device cpu --backend auto"
    argv = ["bench", "presets", str(out), "--presets", TINY, *sizes.split()]
    assert main([*argv, "--phases", "prefill", "train"]) == 0
    assert "2 of 2 rows" in capsys.readouterr().out
    assert main(argv) == 0
    assert "3 of 3 rows" in capsys.readouterr().out
    content = json.loads(out.read_text())
    assert [row["phase"] for row in content["rows"]] == ["prefill", "train", "decode"]
    assert all(row["ms"] > 0 for row in content["rows"])
    assert content["environment"]["device"] == "cpu"
    jobs = [Job(TINY, "prefill", 1, 16), Job(TINY, "prefill", 1, 17)]
    assert left_to_do(jobs, out, KEY) == jobs[1:]


@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ("x.txt", "FILE: 'x.txt' is not allowed (must end in .json)"),
        ("x.json --presets toy-gnd", "--presets: 'toy-gnd' is not allowed"),
        ("x.json --train 0 8", "--train: (0, 8) is not allowed (numbers >= 1)"),
        ("x.json --backend tritn", "--backend: 'tritn' is not allowed"),
        ("x.json --limit 0", "--limit: 0.0 is not allowed"),
    ],
)
def test_refusals(
    flags: str,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["bench", "presets", *flags.split(), "--device", "cpu"]) == 2
    assert f"lt2: error: {line}" in capsys.readouterr().err
