import json
import math
import os
from pathlib import Path
from typing import Any

import joblib
import pytest

from lt2theory.runs import (
    LocalExecutor,
    ProgressEvent,
    RunFolder,
    Study,
    StudyError,
    StudyRun,
    read_table,
    run_study,
    study_run,
)


def member(value: int, label: str = "arm") -> StudyRun:
    return study_run({"value": value}, {"label": label, "seed": value, "task": "none"})


def square(config: dict[str, Any], folder: Path, threads: int) -> None:
    """Stands in for a trainer: squares a number, and fails on negative ones."""
    identity = {"label": "arm", "seed": config["value"], "task": "none"}
    with RunFolder.writing(folder, kind="square", config=config, identity=identity) as run:
        if config["value"] < 0:
            raise ArithmeticError("negative")
        run.append_metrics({"split": "run", "metrics": {"square": config["value"] ** 2}})
        run.append_timing({"process": os.getpid(), "threads": threads})
        run.write_summary({})


def test_a_study_runs_collects_and_is_done(tmp_path: Path) -> None:
    study = Study.create(tmp_path / "s", [member(2), member(3)], kind="square")
    events: list[ProgressEvent] = []
    table = run_study(study, square, progress=events.append)
    assert table.set_index("seed")["value"].to_dict() == {2: 4.0, 3: 9.0}
    assert read_table(tmp_path / "s" / "results.parquet").equals(table)
    assert [(event.done, event.final) for event in events] == [(1, False), (2, True)]

    first = {run.path: run.timing() for run in study.run_folders()}
    assert run_study(Study(tmp_path / "s"), square).equals(table)
    assert {run.path: run.timing() for run in study.run_folders()} == first


def test_one_failure_spares_the_others_and_is_reported(tmp_path: Path) -> None:
    study = Study.create(tmp_path, [member(-1), member(3)], kind="square")
    with pytest.raises(StudyError, match=r"1 of 2 runs .* failed: .*ArithmeticError: negative"):
        run_study(study, square)
    assert list(read_table(tmp_path / "results.parquet")["value"]) == [9.0]


@pytest.mark.skipif(joblib.cpu_count() < 2, reason="needs two cores")
def test_workers_are_processes_that_share_the_cores(tmp_path: Path) -> None:
    study = Study.create(tmp_path, [member(value) for value in range(4)], kind="square")
    # Wrapped: another process cannot import a test module, so the function travels by value.
    table = run_study(study, joblib.wrap_non_picklable_objects(square), executor=LocalExecutor(2))
    assert sorted(table["value"]) == [0.0, 1.0, 4.0, 9.0]
    notes = [run.timing()[0] for run in study.run_folders()]
    assert os.getpid() not in {note["process"] for note in notes}
    assert {note["threads"] for note in notes} == {joblib.cpu_count() // 2}


def test_manifests_may_grow_but_not_lose_runs(tmp_path: Path) -> None:
    Study.create(tmp_path, [member(1)], kind="square")
    grown = Study.create(tmp_path, [member(1), member(2)], kind="square")
    assert [run.config["value"] for run in grown.runs] == [1, 2]
    with pytest.raises(ValueError, match="1 runs that are not in this one"):
        Study.create(tmp_path, [member(1)], kind="square")
    Study.create(tmp_path, [member(3)], kind="square", overwrite=True)
    assert [run.config["value"] for run in Study(tmp_path).runs] == [3]


def test_equal_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="appears twice"):
        Study.create(tmp_path, [member(1), member(1)], kind="square")


def test_folder_names_are_safe_and_tell_runs_apart() -> None:
    first = member(1, label="../β (0,2) / T=2")
    assert first.folder == f"0_2_T=2-seed1-{first.hash}"
    assert member(1, label="///").folder.startswith("run-seed1-")
    assert member(1).folder != member(2).folder


def test_unreadable_studies_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is not a study: it has no manifest\.json"):
        Study(tmp_path)
    (tmp_path / "manifest.json").write_text(json.dumps({"kind": "x", "runs": [{"folder": "a"}]}))
    with pytest.raises(ValueError, match="is not a study's manifest"):
        Study(tmp_path)


def test_a_configuration_that_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        study_run({"value": math.nan}, {"label": "a", "seed": 0, "task": "t"})
