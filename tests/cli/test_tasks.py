"""`lt2 tasks`: every task can be listed, shown and exported from its flags."""

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import tasks
from lt2theory.cli import main

NAMES = sorted(tasks.catalogue())
Output = pytest.CaptureFixture[str]


def test_list_names_every_task_and_knob(capsys: Output) -> None:
    assert main(["tasks", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines if line[0] != " "] == list(tasks.catalogue())
    assert any("group='S5'" in line for line in lines)


@pytest.mark.parametrize("name", NAMES)
def test_show_every_task(name: str, capsys: Output) -> None:
    assert main(["tasks", "show", name]) == 0
    text = capsys.readouterr().out
    task = tasks.create(name)
    stage = task.stages[0]
    assert task.describe(task.batch(stage=stage, size=1), 0) in text
    assert "token[label]: " in text
    for floor, accuracy in task.floors(stage).items():
        assert f"{floor:<24} {accuracy:.4f}" in text


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("verb", ["show", "export"])
def test_help_explains_every_knob(verb: str, name: str, capsys: Output) -> None:
    with pytest.raises(SystemExit):
        main(["tasks", verb, name, "--help"])
    text = capsys.readouterr().out
    for knob in [*tasks.create(name).knobs, "stage", "split", "seed", "index", "size"]:
        assert f"--{knob.replace('_', '-')}" in text


def test_show_takes_knobs_and_stages(capsys: Output) -> None:
    argv = ["--group", "S3", "--stage", "9", "--split", "test", "--seed", "3", "--size", "2"]
    assert main(["tasks", "show", "group-word", *argv]) == 0
    text = capsys.readouterr().out
    task = tasks.create("group_word", group="S3")
    batch = task.batch(stage=9, split="test", seed=3, size=2)
    assert all(task.describe(batch, row) in text for row in range(2))


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ("show grop", "task: 'grop' is not allowed (choose from "),
        ("show", "task: no name given (choose from "),
        ("show group_word --group Q8", "--group: 'Q8' is not allowed (must be "),
        ("show group_word --stage 0", "--stage: 0 is not allowed (must be "),
        ("show group_word --stage x", "--stage: "),
        ("show group_word --split dev", "--split: 'dev' is not allowed (choose from train, eval, "),
        ("show parity --stage 4 --split test --size 99", "--size: 99 is not allowed (must be <= "),
        ("show parity --size 0", "--size: 0 is not allowed (must be "),
        ("export parity", "--out: no value given (required)"),
        (
            "export parity --out a.csv",
            "--out: 'a.csv' is not allowed (must end in .parquet or .npz",
        ),
        ("export parity --out no/a.npz", "--out: 'no/a.npz' cannot be written (no folder no)"),
    ],
)
def test_refusals(
    argv: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["tasks", *argv.split()]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"lt2: error: {line}")
    assert captured.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", [".parquet", ".npz"])
def test_export_round_trip(suffix: str, tmp_path: Path, capsys: Output) -> None:
    out = tmp_path / f"data{suffix}"
    knobs = ["mqar", "--vocab", "64", "--stage", "2", "--split", "eval", "--size", "8"]
    argv = ["tasks", "export", *knobs, "--out", str(out)]
    assert main(argv) == 0
    written = [Path(line) for line in capsys.readouterr().out.split()]
    assert written[0] == out
    card = json.loads(written[1].read_text(encoding="utf-8"))
    assert card["batch"] == {"stage": 2, "split": "eval", "seed": 0, "index": 0, "size": 8}
    expected = tasks.create("mqar", vocab=64).batch(stage=2, split="eval", size=8)
    if suffix == ".npz":
        inputs = np.load(out)["inputs"]
    else:
        inputs = np.stack(pd.read_parquet(out)["inputs"].to_list())
    np.testing.assert_array_equal(inputs, expected.inputs)

    before = out.read_bytes()
    assert main(argv) == 2
    assert "exists (--replace replaces it)" in capsys.readouterr().err
    assert out.read_bytes() == before
    assert main([*argv, "--replace"]) == 0


@pytest.mark.parametrize("name", ["a.npz", "a.npz.card.json"])
def test_export_refuses_a_pipe(name: str, tmp_path: Path, capsys: Output) -> None:
    os.mkfifo(tmp_path / name)
    out = ["--out", str(tmp_path / "a.npz"), "--replace"]
    assert main(["tasks", "export", "parity", *out]) == 2
    said = f"lt2: error: --out: '{tmp_path / name}' cannot be written (it is a pipe)"
    assert capsys.readouterr().err.startswith(said)
    assert [path.name for path in tmp_path.iterdir()] == [name]
