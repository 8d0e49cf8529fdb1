"""`lt2 curriculum run`: recipes, overrides, resuming, refusals."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from pydantic import BaseModel

from lt2theory.cli import main
from lt2theory.experiments.recipes import recipes
from lt2theory.runs import run_status
from lt2theory.training import CurriculumConfig

Output = pytest.CaptureFixture[str]

TINY = """
    --task.name parity --task.knobs --stages 16 --test-stages --learning-rates --step-budget 4
    --min-steps 0 --evaluate-every 2 --evaluation-size 64 --confirmation-size 64 --test-size 64
    --batch-size 8 --threads 1 --model.width 16 --model.num-heads 2 --model.num-layers 1
    --model.num-loops 1 --model.loop-state rescan --model.pattern gdn
"""


def run(*argv: str) -> int:
    """Run the verb on a tiny model."""
    return main(["curriculum", "run", *TINY.split(), *argv])


def flags(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The flags of a configuration, nested ones by their path."""
    for name, field in model.model_fields.items():
        flag = f"{prefix}{name.replace('_', '-')}"
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from flags(kind, f"{flag}.")
        else:
            assert field.description, f"{flag} is not explained"
            yield f"--{flag}"


def test_help_explains_every_option(capsys: Output) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["curriculum", "run", "--help"])
    assert stopped.value.code == 0
    words = capsys.readouterr().out.split()
    expected = [*flags(CurriculumConfig), "--out", "--overwrite", "--json"]
    assert [flag for flag in expected if f"{flag}" not in {word.strip(",") for word in words}] == []
    assert [name for name in recipes() if name not in {word.strip(",") for word in words}] == []


@pytest.mark.parametrize("name", sorted(recipes()))
def test_every_recipe_explains_itself(name: str, capsys: Output) -> None:
    with pytest.raises(SystemExit):
        main(["curriculum", "run", name, "--help"])
    assert f"usage: lt2 curriculum run {name}" in capsys.readouterr().out


def test_a_run_leaves_its_summary_and_is_not_done_twice(tmp_path: Path, capsys: Output) -> None:
    out, copy = tmp_path / "run", tmp_path / "copy.json"
    assert run("--out", str(out), "--json", str(copy)) == 0
    first = capsys.readouterr().out
    assert first.startswith(f"{out}: ")
    assert "floors: uniform 0.500" in first
    summary = json.loads((out / "summary.json").read_text())
    assert json.loads(copy.read_text()) == summary
    assert summary["task"]["task"] == "parity"

    assert run("--out", str(out)) == 0
    assert capsys.readouterr().out == first.replace(f"{out}: ", f"{out}: done before: ", 1)

    assert run("--out", str(out), "--seed", "1") == 2
    refused = capsys.readouterr().err
    assert refused.endswith("; choose another folder or give --overwrite\n")
    assert refused.count("\n") == 1
    assert json.loads((out / "summary.json").read_text()) == summary
    assert run("--out", str(out), "--seed", "1", "--overwrite") == 0
    assert json.loads((out / "summary.json").read_text())["seed"] == 1


def test_the_default_folder_names_label_and_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("--label", "mine", "--seed", "3") == 0
    (folder,) = (tmp_path / "runs").iterdir()
    assert folder.name.startswith("mine-seed3-")
    assert json.loads((folder / "config.json").read_text())["hash"] in folder.name


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (
            "--model.num-loops 0",
            "--model.num-loops: 0 is not allowed (should be greater than or eq",
        ),
        ("--model.num-lops 2", "--model.num-lops: no such option, perhaps you meant --model.num-l"),
        (
            "--model.pattern gnd",
            "--model.pattern: 'gnd' is not allowed, perhaps you meant gdn (choose from full, ",
        ),
        ("--model.loop-state both", "--model.loop-state: 'both' is not allowed (choose from resc"),
        ("--model.width 15", "--model.num-heads: 2 does not divide width 15"),
        ("--task.name grop", "task: 'grop' is not allowed (choose from parity"),
        ("--task.knobs group=S3", "knob: 'group' is not allowed (parity has no knobs)"),
        ("--stages 0", "stage: 0 is not allowed (must be "),
        ("--pass-mark 2", "--pass-mark: 2.0 is not allowed (should be less than or equal to 1)"),
        ("--device gpu", "--device: 'gpu' is not allowed (choose from cpu, cuda)"),
        (
            "--optimiser.clip inf",
            "--optimiser.clip: inf is not allowed (should be a finite number)",
        ),
        ("--learning-rates inf", "--learning-rates.0: inf is not allowed (should be a finite "),
        ("--batch-size 9999999999", "--batch-size: 9999999999 is not allowed (should be less"),
        ("--model.num-loops 99999", "--model.num-loops: 99999 is not allowed (should be less"),
        ("--threads two", "--threads: 'two' is not allowed (expected {None}|INT)"),
        ("--json no/x.json", "--json: 'no/x.json' cannot be written (no folder no)"),
    ],
)
def test_refusals(
    argv: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("--out", "run", *argv.split()) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"lt2: error: {line}"), captured.err
    assert captured.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_missing_device_is_refused(tmp_path: Path, capsys: Output) -> None:
    assert run("--out", str(tmp_path / "run"), "--device", "cuda") == 2
    assert capsys.readouterr().err.startswith("lt2: error: --device: ")


def test_an_unknown_recipe_lists_the_known(capsys: Output) -> None:
    assert main(["curriculum", "run", "no-such"]) == 2
    assert "recipe: 'no-such' is not allowed (choose from " in capsys.readouterr().err


@pytest.mark.slow
def test_a_run_that_diverged_says_where_and_why(tmp_path: Path, capsys: Output) -> None:
    wild = "--optimiser.learning-rate 1e30 --optimiser.warmup-steps 0"
    assert run("--out", str(tmp_path / "run"), *wild.split()) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert "run: diverged, " in first
    assert re.fullmatch(r"  step \d+: .*(loss|gradient).* is (nan|inf|not finite)", second), second


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_resumable_run(number: signal.Signals, tmp_path: Path) -> None:
    out = tmp_path / "run"
    longer = ["--step-budget", "100000", "--pass-mark", "1", "--checkpoint-every", "10"]
    command = [sys.executable, "-m", "lt2theory", "curriculum", "run", *TINY.split(), *longer]
    process = subprocess.Popen(
        [*command, "--out", str(out)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    deadline = time.monotonic() + 120
    while not any(out.glob("checkpoints/*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.2)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert errors.splitlines()[-1].startswith("lt2: ")
    assert "same command" in errors.splitlines()[-1]
    assert run_status(out) == "unfinished"
