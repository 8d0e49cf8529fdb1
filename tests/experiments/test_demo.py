"""The demo from end to end, on questions that take a second."""

import dataclasses
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lt2theory.experiments import demo
from lt2theory.experiments.demo import run_demo
from lt2theory.experiments.question import Answer, Evidence, Question
from lt2theory.experiments.recipes import parity
from lt2theory.report import PredictionRow, ReportFigure, Section
from lt2theory.report.figures.axes import new_figure
from lt2theory.runs import ProgressEvent, Study, StudyError, run_status
from lt2theory.training import CurriculumConfig, Interrupted

real_questions = demo.questions


def figure() -> ReportFigure:
    drawing, _ = new_figure()
    return ReportFigure(drawing, "caption", "alt")


def question(name: str, configs: list[CurriculumConfig], verdict: Any) -> Question:
    """A question that says how many of its runs it saw."""

    def answer(evidence: Evidence) -> Answer:
        seen = sorted(f"{label} {seed}" for label, seed in evidence.folders)
        assert all(run_status(path) == "done" for path in evidence.folders.values())
        assert set(evidence.table["run"]) == {path.name for path in evidence.folders.values()}
        assert evidence.card["task"] == "parity"
        row = PredictionRow(f"claim of {name}", "W1", f"seen: {', '.join(seen)}", verdict)
        section = Section(f"section {name}", "question", figures=[figure()])
        return Answer((section,), (row,))

    return Question(name, tuple(configs), answer)


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch, tiny: Any) -> Callable[..., None]:
    """Two questions of two runs and one; `asked(seeds=...)` changes what the first one runs."""
    monkeypatch.setattr(demo, "WORKERS", 1)

    def ask(seeds: tuple[int, ...] = (0, 1), **changes: Any) -> None:
        configs = [
            CurriculumConfig.model_validate(tiny(parity(seed=seed)).model_dump() | changes)
            for seed in seeds
        ]
        other = [tiny(parity(negative_eigenvalues=False, seed=5))]
        monkeypatch.setattr(
            demo,
            "questions",
            lambda: (
                question("first", configs, "as predicted"),
                question("second", other, "inconclusive"),
            ),
        )

    ask()
    return ask


def stamps(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): path.stat().st_mtime_ns
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_demo_is_run_measured_and_reported(tmp_path: Path) -> None:
    folder, events = tmp_path / "deep" / "demo", list[ProgressEvent]()
    done = run_demo(folder, progress=events.append)
    assert done.report == folder / "report.html"
    assert not done.done_before
    assert [(row.claim, row.happened, row.verdict) for row in done.predictions] == [
        ("claim of first", "seen: beta in (0, 2) 0, beta in (0, 2) 1", "as predicted"),
        ("claim of second", "seen: beta in (0, 1) 5", "inconclusive"),
    ]
    page = done.report.read_text()
    assert "Outcome of the 2 predictions: 1 as predicted, 1 inconclusive." in page
    assert page.count('<img src="data:') >= 2
    assert "lt2 demo" in page
    # The longest runs come last in the report and first in the queue.
    assert [run.identity["seed"] for run in Study(folder).runs] == [5, 0, 1]
    runs = [event.done for event in events if event.unit == "run"]
    assert runs == [1, 2, 3]
    assert [event.done for event in events if event.unit == "question"] == [1, 2]
    made = {path.name for path in folder.iterdir()} - {run.folder for run in Study(folder).runs}
    assert made == {"demo.json", "manifest.json", "results.parquet", "report.html", "summary.json"}
    # summary.json marks the demo as done, so it is the last that is written.
    last = max(stamps(folder).items(), key=lambda item: item[1])
    assert last[0] == "summary.json"


def test_what_was_done_before_is_not_computed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run_demo(tmp_path)
    before = stamps(tmp_path)
    monkeypatch.setattr(demo, "run_many", None)
    again = run_demo(tmp_path)
    assert again == dataclasses.replace(first, done_before=True)
    assert stamps(tmp_path) == before


@pytest.mark.parametrize("lost", ["report.html", "summary.json"])
def test_a_lost_report_is_written_again_from_the_runs(tmp_path: Path, lost: str) -> None:
    first = run_demo(tmp_path)
    runs = {name: time for name, time in stamps(tmp_path).items() if "seed" in name}
    (tmp_path / lost).unlink()
    again = run_demo(tmp_path)
    assert not again.done_before
    assert again.predictions == first.predictions
    assert {name: time for name, time in stamps(tmp_path).items() if "seed" in name} == runs


def test_more_runs_are_added_to_those_that_are_there(tmp_path: Path, asked: Any) -> None:
    run_demo(tmp_path)
    old = {name: time for name, time in stamps(tmp_path).items() if "seed" in name}
    asked(seeds=(0, 1, 2))
    more = run_demo(tmp_path)
    assert not more.done_before
    assert more.predictions[0].happened.endswith("beta in (0, 2) 2")
    assert old.items() <= stamps(tmp_path).items()


def test_another_versions_demo_is_kept_unless_it_is_started_over(
    tmp_path: Path, asked: Any
) -> None:
    run_demo(tmp_path)
    before = stamps(tmp_path)
    asked(batch_size=8)
    with pytest.raises(ValueError, match=r"another version, with 2 other runs .* with fresh=True$"):
        run_demo(tmp_path)
    assert stamps(tmp_path).items() >= {n: t for n, t in before.items() if n != "demo.json"}.items()
    assert not run_demo(tmp_path, fresh=True).done_before
    assert run_demo(tmp_path).done_before


def test_another_version_of_the_package_reads_the_runs_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_demo(tmp_path)
    runs = {name: time for name, time in stamps(tmp_path).items() if "seed" in name}
    monkeypatch.setattr(demo, "__version__", "999")
    assert not run_demo(tmp_path).done_before
    assert {name: time for name, time in stamps(tmp_path).items() if "seed" in name} == runs
    assert run_demo(tmp_path).done_before


def test_fresh_starts_over_and_spares_what_is_not_the_demos(tmp_path: Path, asked: Any) -> None:
    asked(seeds=(0, 1, 2))
    run_demo(tmp_path)
    (tmp_path / "notes.txt").write_text("mine")
    before = stamps(tmp_path)
    asked()
    again = run_demo(tmp_path, fresh=True)
    assert not again.done_before
    after = stamps(tmp_path)
    assert {name for name in before if after.get(name) == before[name]} == {"notes.txt"}
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 3


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("kind", ["files", "study", "run"])
def test_a_folder_that_is_no_demo_is_refused_and_untouched(
    tmp_path: Path, fresh: bool, kind: str, tiny: Any
) -> None:
    if kind == "files":
        (tmp_path / "summary.json").write_text("{}")
        (tmp_path / "report.html").write_text("mine")
    elif kind == "study":
        demo.run_many([tiny(parity(seed=9))], tmp_path)
    else:
        (tmp_path / "config.json").write_text("{}")
    before = stamps(tmp_path)
    with pytest.raises(ValueError, match=r"is not empty and no demo \(it holds .*choose another"):
        run_demo(tmp_path, fresh=fresh)
    assert stamps(tmp_path) == before


def test_an_empty_folder_will_do(tmp_path: Path) -> None:
    (tmp_path / ".manifest.json.1.tmp").write_text("left by a kill")
    assert not run_demo(tmp_path, fresh=True).done_before


def test_a_demo_that_is_being_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_twice: list[str] = []

    def meanwhile(*_: Any, **__: Any) -> None:
        with pytest.raises(ValueError, match="is being written by process") as refusal:
            run_demo(tmp_path, fresh=True)
        asked_twice.append(str(refusal.value))
        raise RuntimeError("enough")

    monkeypatch.setattr(demo, "run_many", meanwhile)
    with pytest.raises(RuntimeError, match="enough"):
        run_demo(tmp_path)
    assert len(asked_twice) == 1


def test_an_interrupted_demo_goes_on(tmp_path: Path) -> None:
    def stop(event: ProgressEvent) -> None:
        if event.unit == "run" and event.done == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted):
        run_demo(tmp_path, progress=stop)
    states = [run_status(tmp_path / run.folder) for run in Study(tmp_path).runs]
    assert states[0] == "done"
    assert "done" not in states[1:]
    assert not {"summary.json", "report.html", "lock"} & {p.name for p in tmp_path.iterdir()}
    first = stamps(tmp_path / Study(tmp_path).runs[0].folder)
    assert not run_demo(tmp_path).done_before
    assert stamps(tmp_path / Study(tmp_path).runs[0].folder) == first


def test_an_interrupt_while_measuring_goes_on_too(tmp_path: Path) -> None:
    def stop(event: ProgressEvent) -> None:
        if event.unit == "question":
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted):
        run_demo(tmp_path, progress=stop)
    assert not (tmp_path / "summary.json").exists()
    assert not run_demo(tmp_path).done_before


def test_a_failing_run_spares_the_others_and_is_done_by_the_same_call(tmp_path: Path) -> None:
    run_demo(tmp_path)
    for name in ("summary.json", "report.html"):
        (tmp_path / name).unlink()
    broken = tmp_path / Study(tmp_path).runs[1].folder
    (broken / "summary.json").unlink()
    kept = (broken / "metrics.jsonl").read_bytes()
    (broken / "metrics.jsonl").write_bytes(b"")
    with pytest.raises(StudyError, match=r"1 of 3 runs of .* failed: "):
        run_demo(tmp_path)
    assert not (tmp_path / "summary.json").exists()
    (broken / "metrics.jsonl").write_bytes(kept)
    assert not run_demo(tmp_path).done_before


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch, tiny: Any) -> None:
    """The demo's own questions, with one step a run."""
    short = tuple(
        dataclasses.replace(one, configs=tuple(map(tiny, one.configs))) for one in real_questions()
    )
    monkeypatch.setattr(demo, "questions", lambda: short)


@pytest.mark.slow
@pytest.mark.usefixtures("real")
def test_the_real_questions_say_what_happened_to_models_that_learnt_nothing(tmp_path: Path) -> None:
    done = run_demo(tmp_path)
    verdicts = [row.verdict for row in done.predictions]
    assert verdicts == [
        "not as predicted",  # parity: beta in (0, 2) did not solve
        "as predicted",  # S3, one loop: does not solve
        "inconclusive",  # S3, two loops: no arm solves
        "as predicted",  # ranks do not depend on training (R2)
        "not as predicted",  # distance: nothing was solved
        "as predicted",  # nor do receptive fields (W7)
        "not as predicted",  # recall
    ]
    page = done.report.read_text()
    assert "Outcome of the 7 predictions: 3 as predicted, 3 not as predicted, 1 incon" in page
    assert "none with T = 4 (0 of 4 runs)" in page
    kept = json.loads((tmp_path / "summary.json").read_text())["predictions"]
    assert kept == [vars(row) for row in done.predictions]
