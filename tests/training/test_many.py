import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import joblib
import pytest

from lt2theory.runs import ProgressEvent, RunFolder, Study, StudyError, run_status
from lt2theory.training import Interrupted, load_summary, run_curriculum, run_many

CHILD = """
import json, signal, sys
from pathlib import Path
# Where the tests run in the background of a shell, SIGINT comes ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
from lt2theory.training import CurriculumConfig, Interrupted, run_many
configs = [CurriculumConfig.model_validate(c) for c in json.loads(Path(sys.argv[1]).read_text())]
try:
    run_many(configs, Path(sys.argv[2]), workers=2)
except KeyboardInterrupt as error:
    print(type(error).__name__, error)
    raise SystemExit(130)
"""


def quick(make_config: Any, seed: int, **changes: Any) -> Any:
    return make_config(stages=(12,), test_stages=(), seed=seed, **changes)


def test_a_study_equals_its_runs_one_by_one(tmp_path: Path, make_config: Any, results: Any) -> None:
    configs = [quick(make_config, seed) for seed in (0, 1)]
    events: list[ProgressEvent] = []
    table = run_many(configs, tmp_path / "study", progress=events.append)
    assert {event.task for event in events if event.unit == "run"} == {"study"}
    assert any(event.task == "small seed 1: parity 12" for event in events)
    folders = [tmp_path / "study" / run.folder for run in Study(tmp_path / "study").runs]
    for config, folder in zip(configs, folders, strict=True):
        run_curriculum(config, tmp_path / "alone", overwrite=True)
        assert results(folder) == results(tmp_path / "alone")
    scores = table[(table["split"] == "test") & (table["metric"] == "scored_accuracy")]
    assert dict(zip(scores["seed"], scores["value"], strict=True)) == {
        seed: load_summary(folder).test[0].evaluation.scored_accuracy
        for seed, folder in enumerate(folders)
    }


def test_what_is_done_is_skipped_and_more_may_be_added(tmp_path: Path, make_config: Any) -> None:
    first = run_many([quick(make_config, 0)], tmp_path)
    (folder,) = (tmp_path / run.folder for run in Study(tmp_path).runs)
    stamp = (folder / "summary.json").stat().st_mtime_ns
    both = run_many([quick(make_config, 0), quick(make_config, 1)], tmp_path)
    assert (folder / "summary.json").stat().st_mtime_ns == stamp
    assert both[both["seed"] == 0].reset_index(drop=True).equals(first)


def test_an_interrupt_stops_the_study_and_the_same_call_continues_it(
    tmp_path: Path, make_config: Any, results: Any
) -> None:
    configs = [quick(make_config, seed, pass_mark=1.0) for seed in (0, 1)]

    def stop(event: ProgressEvent) -> None:
        if event.task == "small seed 1: parity 12" and event.done == 10:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted):
        run_many(configs, tmp_path / "parts", progress=stop)
    states = [run_status(tmp_path / "parts" / r.folder) for r in Study(tmp_path / "parts").runs]
    assert states == ["done", "unfinished"]
    run_many(configs, tmp_path / "parts")
    run_many(configs, tmp_path / "whole")
    for run in Study(tmp_path / "whole").runs:
        assert results(tmp_path / "parts" / run.folder) == results(tmp_path / "whole" / run.folder)


def test_bad_studies_are_refused_before_any_run(tmp_path: Path, make_config: Any) -> None:
    with pytest.raises(ValueError, match="appears twice"):
        run_many([quick(make_config, 0)] * 2, tmp_path / "s")
    with pytest.raises(ValueError, match="stage: 0 is not allowed"):
        run_many([quick(make_config, 0), make_config(stages=(0,))], tmp_path / "s")
    cores = joblib.cpu_count()
    with pytest.raises(ValueError, match=rf"workers: got {cores + 1}, allowed 1\.\.{cores}"):
        run_many([quick(make_config, 0)], tmp_path / "s", workers=cores + 1)
    assert not (tmp_path / "s").exists()


@pytest.mark.skipif(joblib.cpu_count() < 2, reason="needs two cores")
def test_threads_and_workers_share_the_cores(tmp_path: Path, make_config: Any) -> None:
    config = quick(make_config, 0, threads=joblib.cpu_count())
    with pytest.raises(ValueError, match=r"threads: got .* with 2 workers"):
        run_many([config], tmp_path / "s", workers=2)


def test_a_broken_run_is_reported_and_spares_the_others(tmp_path: Path, make_config: Any) -> None:
    configs = [quick(make_config, seed) for seed in (0, 1)]
    study = tmp_path / "study"
    run_many(configs[:1], study)
    (first,) = (study / run.folder for run in Study(study).runs)
    (first / "summary.json").unlink()
    (first / "metrics.jsonl").write_bytes(b"")
    with pytest.raises(StudyError, match=r"1 of 2 runs .*metrics\.jsonl holds 0 bytes"):
        run_many(configs, study)
    states = [run_status(study / run.folder) for run in Study(study).runs]
    assert states == ["unfinished", "done"]


@pytest.mark.slow
@pytest.mark.skipif(joblib.cpu_count() < 2, reason="needs two cores")
def test_workers_give_the_same_numbers(tmp_path: Path, make_config: Any, results: Any) -> None:
    configs = [quick(make_config, seed, threads=1) for seed in range(3)]
    alone = run_many(configs, tmp_path / "alone")
    together = run_many(configs, tmp_path / "together", workers=2)
    timeless = [table[table["split"] != "timing"] for table in (alone, together)]
    assert timeless[0].equals(timeless[1])
    for run in Study(tmp_path / "alone").runs:
        pair = [results(tmp_path / name / run.folder) for name in ("alone", "together")]
        assert pair[0] == pair[1]


@pytest.mark.slow
@pytest.mark.skipif(joblib.cpu_count() < 2, reason="needs two cores")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_workers_can_be_interrupted(
    tmp_path: Path, make_config: Any, number: signal.Signals
) -> None:
    slow = {"step_budget": 100_000, "pass_mark": 1.0, "min_steps": 100_000, "threads": 1}
    configs = [quick(make_config, seed, **slow) for seed in range(2)]
    text = "[" + ",".join(config.model_dump_json() for config in configs) + "]"
    (tmp_path / "configs.json").write_text(text)
    command = [sys.executable, "-c", CHILD, str(tmp_path / "configs.json"), str(tmp_path / "s")]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        while len(list((tmp_path / "s").glob("*/checkpoints/*-step-*"))) < 2:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert output.strip()
    for run in Study(tmp_path / "s").runs:
        assert RunFolder.open(tmp_path / "s" / run.folder).status == "unfinished"
