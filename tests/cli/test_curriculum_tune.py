"""`lt2 curriculum tune`: what it prints and keeps, and what it refuses."""

import csv
import json
import sys
from pathlib import Path

import pytest

from lt2theory.cli import main
from lt2theory.experiments import searches
from lt2theory.experiments.search_space import LogUniform
from lt2theory.experiments.searches import Search
from lt2theory.training import CurriculumConfig

Output = pytest.CaptureFixture[str]
EFFORT = ["--settings", "2", "--seeds", "1", "--finalists", "1", "--further-seeds", "1"]


@pytest.fixture(autouse=True)
def tiny_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """One search of two arms that takes no time."""
    common = {
        "task": {"name": "parity"},
        "stages": (6,),
        "step_budget": 2,
        "evaluate_every": 1,
        "evaluation_size": 64,
        "confirmation_size": 64,
        "batch_size": 4,
        "threads": 1,
    }
    model = {"width": 8, "num_layers": 1, "num_heads": 2, "pattern": "deltanet", "num_loops": 2}
    arms = tuple(
        CurriculumConfig.model_validate(
            common | {"model": model | {"loop_state": state}, "label": state}
        )
        for state in ("rescan", "accumulate")
    )
    search = Search(arms, {"optimiser.learning_rate": LogUniform(1e-3, 1e-2)})
    monkeypatch.setattr(searches, "searches", lambda: {"s3": lambda: search})


def tune(*argv: str) -> int:
    return main(["curriculum", "tune", "s3", *EFFORT, *argv])


def test_it_prints_every_arm_and_keeps_the_table(tmp_path: Path, capsys: Output) -> None:
    out, copy = tmp_path / "search", tmp_path / "table.csv"
    record = tmp_path / "table.json"
    assert tune("--out", str(out), "--csv", str(copy), "--json", str(record)) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "rescan: best of 2 settings"
    assert printed[1].startswith("  0 of 2 solved, 2 steps, accuracy 0.")
    assert printed[3] == "accumulate: best of 2 settings"
    assert printed[-1] == str(out)
    rows = list(csv.DictReader(copy.read_text().splitlines()))
    assert [row["arm"] for row in rows] == ["rescan"] * 2 + ["accumulate"] * 2
    kept = json.loads(record.read_text())
    assert [row["setting"] for row in kept] == [row["setting"] for row in rows]
    assert tune("--out", str(out)) == 0
    assert capsys.readouterr().out.splitlines() == printed


def test_a_guided_search_has_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.chdir(tmp_path)
    assert tune("--sampler", "tpe", "--sampler-seed", "3") == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "rescan: best of 2 settings"
    assert printed[-1] == str(Path("runs", "tune-s3-tpe"))


def test_a_guided_search_without_optuna_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert tune("--out", str(tmp_path / "search"), "--sampler", "tpe") == 2
    error = capsys.readouterr().err
    assert "--sampler: 'tpe' needs optuna" in error
    assert "pip install 'lt2theory[search]'" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "search").exists()


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ("--settings 0", "settings: got 0, allowed are whole numbers >= 1"),
        ("--finalists 3", "finalists: got 3, allowed 1..2 (settings)"),
        ("--sampler tpa", "--sampler: 'tpa' is not allowed"),
        ("--sampler-seed -1", "--sampler-seed: got -1, allowed are whole numbers 0..4294967295"),
        ("--workers 0", "workers: got 0, allowed 1.."),
        ("--csv no/table.csv", "--csv: 'no/table.csv' cannot be written (no folder no)"),
        ("--setings 3", "--setings: no such option, perhaps you meant --settings"),
    ],
)
def test_refusals(
    argv: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.chdir(tmp_path)
    assert tune("--out", "search", *argv.split()) == 2
    captured = capsys.readouterr()
    assert line in captured.err, captured.err
    assert captured.err.count("\n") == 1
    assert not (tmp_path / "search").exists()
