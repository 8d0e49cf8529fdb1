"""`lt2 bench`: a table on the screen, and the same rows with their environment as JSON."""

import json
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from lt2theory.bench import decode
from lt2theory.cli import bench_options, main
from lt2theory.cli.app import COMMANDS
from lt2theory.cli.bench_efficiency import EfficiencyOptions
from lt2theory.cli.bench_lm_step import LmStepOptions
from lt2theory.cli.bench_model import ModelOptions
from lt2theory.cli.bench_presets import PresetsOptions


def test_tasks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "tasks.json"
    argv = ["--seconds", "0.01", "--size", "64", "--workers", "1", "--json", str(out)]
    assert main(["bench", "tasks", *argv]) == 0
    text = capsys.readouterr().out
    content = json.loads(out.read_text(encoding="utf-8"))
    assert content["environment"]["packages"]["numpy"]
    assert {row["task"] for row in content["rows"]} >= {"mqar", "group_word"}
    assert all(row["examples_per_s"] > 0 for row in content["rows"])
    assert len(text.splitlines()) == 1 + len(content["rows"])


@pytest.mark.slow
def test_ops(tmp_path: Path) -> None:
    out = tmp_path / "ops.json"
    assert main(["bench", "ops", "--repeats", "1", "--threads", "1", "--json", str(out)]) == 0
    content = json.loads(out.read_text(encoding="utf-8"))
    assert content["environment"]["threads"] == 1
    assert all(row["milliseconds"] > 0 for row in content["rows"])


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ("tasks --workers 0", "--workers: 0 is not allowed (should be greater than or equal to 1)"),
        ("tasks --seconds 0", "--seconds: 0.0 is not allowed (should be greater than 0)"),
        ("tasks --seconds inf", "--seconds: inf is not allowed (should be a finite number)"),
        ("ops --repeats 0", "--repeats: 0 is not allowed (should be greater than or equal to 1)"),
        ("tasks --json no/x.json", "--json: 'no/x.json' cannot be written (no folder no)"),
    ],
)
def test_refusals(argv: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *argv.split()]) == 2
    assert capsys.readouterr().err.startswith(f"lt2: error: {line}")


def test_decode_takes_what_is_named_twice_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def stop(settings, **options):
        asked.extend(settings)
        raise ValueError("stop here")

    monkeypatch.setattr(decode, "bench_decode", stop)
    argv = "--patterns gdn full gdn --batches 8 8 --contexts 64 32 64"
    assert main(["bench", "decode", *argv.split()]) == 2
    named = [(each.pattern, each.batch, each.context) for each in asked]
    assert named == [("gdn", 8, 64), ("gdn", 8, 32), ("full", 8, 64), ("full", 8, 32)]


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ("--patterns mamba", "--patterns: 'mamba' is not allowed (choose from gdn, full,"),
        ("--contexts 8 0", "--contexts: (8, 0) is not allowed (numbers >= 1)"),
        ("--chunk -1", "--chunk: -1 is not allowed"),
    ],
)
def test_prefill_refuses(argv: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "prefill", *argv.split()]) == 2
    assert capsys.readouterr().err.startswith(f"lt2: error: {line}")


@pytest.mark.parametrize("verb", ["prefill", "train-step", "efficiency x.json", "presets x.json"])
def test_an_unknown_backend_is_refused_before_anything_runs(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *verb.split(), "--backend", "tritn"]) == 2
    line = "--backend: 'tritn' is not allowed, perhaps you meant triton (choose from auto,"
    assert capsys.readouterr().err.startswith(f"lt2: error: {line}")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("verb", ["decode", "prefill", "sparse", "study", "efficiency x.json"])
def test_a_cpu_is_refused(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *verb.split()]) == 2
    said = f"device: lt2 bench {verb.split()[0]} needs a CUDA device; a CPU's time says nothing"
    assert capsys.readouterr().err == f"lt2: error: {said}\n"


OPTIONS: dict[str, Any] = {
    "tasks": bench_options.TaskOptions,
    "ops": bench_options.OpsOptions,
    "analysis": bench_options.AnalysisOptions,
    "decode": bench_options.DecodeOptions,
    "prefill": bench_options.PrefillOptions,
    "train-step": bench_options.TrainStepOptions,
    "sparse": bench_options.SparseOptions,
    "study": bench_options.StudyOptions,
    "efficiency new.json": EfficiencyOptions,
    "lm-step": LmStepOptions,
    "model lt2-1.3b-gdn": ModelOptions,
    "presets new.json": PresetsOptions,
}
LISTS = [
    (verb, name)
    for verb, options in OPTIONS.items()
    for name, field in options.model_fields.items()
    if isinstance(field.default, tuple) and Ellipsis in get_args(field.annotation)
]


def test_every_verb_is_known() -> None:
    verbs = {name.removeprefix("bench ") for name in COMMANDS if name.startswith("bench ")}
    assert verbs == {verb.split()[0] for verb in OPTIONS}
    assert len(LISTS) > 15


@pytest.mark.parametrize(("verb", "name"), LISTS)
def test_an_empty_list_is_refused_with_what_is_allowed(
    verb: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flag = "--" + name.replace("_", "-")
    assert main(["bench", *verb.split(), flag]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"lt2: error: {flag}: no value given (one or more ")
    first = str(OPTIONS[verb].model_fields[name].default[0])
    assert ("lt2-1.3b-gdn" if first == "*" else first) in said
    assert len(said.splitlines()) == 1
