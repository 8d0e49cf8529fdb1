"""`lt2 demo`: what it prints where, its exit codes, and what it refuses before any work."""

import json
from pathlib import Path
from typing import Any

import pytest

from lt2theory.cli import main
from lt2theory.experiments import demo
from lt2theory.experiments.question import Answer, Evidence, Question
from lt2theory.experiments.recipes import parity
from lt2theory.report import PredictionRow, Section
from lt2theory.runs import Study
from lt2theory.training import CurriculumConfig

Output = pytest.CaptureFixture[str]

ROW = PredictionRow("claim", "W1", "happened", "not as predicted")


def answer(evidence: Evidence) -> Answer:
    return Answer((Section("title", "question"),), (ROW,))


@pytest.fixture(autouse=True)
def tiny_question(monkeypatch: pytest.MonkeyPatch) -> None:
    changes: dict[str, Any] = {
        "step_budget": 1, "min_steps": 0, "evaluate_every": 1, "evaluation_size": 64,
        "confirmation_size": 64, "test_size": 64, "batch_size": 4,
    }  # fmt: skip
    config = CurriculumConfig.model_validate(parity().model_dump() | changes)
    monkeypatch.setattr(demo, "WORKERS", 1)
    monkeypatch.setattr(demo, "questions", lambda: (Question("one", (config,), answer),))


def test_the_last_line_is_the_report_and_progress_is_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    # Longer than any terminal is wide: the path must not be wrapped.
    out = tmp_path / ("long" * 40)
    monkeypatch.setenv("COLUMNS", "40")
    assert main(["demo", "--out", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{out}/report.html\n"
    assert Path(captured.out.strip()).is_file()
    assert "run 1 of 1" in captured.err
    assert "question 1 of 1" in captured.err

    assert main(["demo", "--out", str(out)]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines() == ["done before", f"{out}/report.html"]
    assert captured.err == ""

    assert main(["demo", "--out", str(out), "--fresh"]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"{out}/report.html\n"
    assert "run 1 of 1" in captured.err


def test_a_prediction_that_failed_is_no_failed_check(tmp_path: Path, capsys: Output) -> None:
    """The demo's outcome is a result; whether it is as predicted stands in the JSON."""
    copy = tmp_path / "copy.json"
    argv = ["demo", "--out", str(tmp_path / "demo"), "--json", str(copy)]
    assert main(argv) == 0
    expected = {"report": str(tmp_path / "demo" / "report.html"), "predictions": [vars(ROW)]}
    assert json.loads(copy.read_text()) == expected
    copy.unlink()
    assert main(argv) == 0
    assert "done before" in capsys.readouterr().out
    assert json.loads(copy.read_text()) == expected


def test_a_failed_run_exits_with_1(tmp_path: Path, capsys: Output) -> None:
    assert main(["demo", "--out", str(tmp_path)]) == 0
    (run,) = Study(tmp_path).runs
    for path in (tmp_path / "summary.json", tmp_path / run.folder / "summary.json"):
        path.unlink()
    (tmp_path / run.folder / "metrics.jsonl").write_bytes(b"")
    capsys.readouterr()
    assert main(["demo", "--out", str(tmp_path), "--json", str(tmp_path / "x.json")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines()[-1].startswith(f"lt2: error: 1 of 1 runs of {tmp_path} failed")
    assert not (tmp_path / "x.json").exists()


def test_an_interrupt_exits_with_130(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(demo, "run_many", interrupted)
        assert main(["demo", "--out", str(tmp_path)]) == 130
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert "the same command" in captured.err
    assert main(["demo", "--out", str(tmp_path)]) == 0


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ("--out taken", "--out: 'taken' cannot be written (taken is not a folder)"),
        ("--out taken/demo", "--out: 'taken/demo' cannot be written ("),
        ("--json no/x.json", "--json: 'no/x.json' cannot be written (no folder no)"),
        ("--json full", "--json: 'full' cannot be written (it is a folder)"),
        ("--out full", "full is not empty and no demo (it holds mine); choose another folder"),
        ("--out full --fresh", "full is not empty and no demo (it holds mine); choose another f"),
        ("--frsh", "--frsh: no such option, perhaps you meant --fresh"),
        ("elsewhere", "elsewhere: only options stand here"),
    ],
)
def test_refusals(
    argv: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("")
    Path("full").mkdir()
    Path("full", "mine").write_text("")
    monkeypatch.setattr(demo, "run_many", None)
    assert main(["demo", *argv.split()]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"lt2: error: {line}"), captured.err
    assert captured.err.count("\n") == 1
    assert sorted(str(path) for path in Path().rglob("*")) == ["full", "full/mine", "taken"]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc")
def test_a_folder_that_cannot_be_made_is_refused(capsys: Output) -> None:
    """The kernel's own folder refuses even the superuser."""
    assert main(["demo", "--out", "/proc/demo"]) == 2
    assert capsys.readouterr().err.startswith("lt2: error: --out: '/proc/demo' cannot be written (")


def test_help_explains_every_option(capsys: Output) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["demo", "--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert [flag for flag in ("--out", "--fresh", "--json") if flag not in text] == []
