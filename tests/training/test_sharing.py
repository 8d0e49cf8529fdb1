"""Runs side by side give the bytes of runs alone; sessions end in time and go on."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from lt2theory.runs import RunFolder, run_status
from lt2theory.runs.jsonl import read_lines
from lt2theory.training import Interrupted, Job, resolve, run_curriculum, share_device
from lt2theory.training.board import Board
from lt2theory.training.feeder import Feeder
from lt2theory.training.seat import Seat
from lt2theory.training.sharing import SESSIONS


def jobs_in(root: Path, make_config: Any, seeds: range, **changes: Any) -> list[Job]:
    changes = {"stages": (12,), "test_stages": ()} | changes
    configs = [resolve(make_config(seed=seed, **changes)) for seed in seeds]
    return [Job(config, root / f"seed{config.seed}") for config in configs]


def alone(jobs: list[Job], root: Path) -> dict[str, Path]:
    for job in jobs:
        run_curriculum(job.config, root / job.folder.name)
    return {job.folder.name: root / job.folder.name for job in jobs}


def test_runs_at_once_give_the_bytes_of_runs_alone(
    tmp_path: Path, make_config: Any, results: Any
) -> None:
    jobs = jobs_in(tmp_path / "together", make_config, range(3))
    accounts = share_device(jobs, device="cpu", at_once=2)
    assert {account.state for account in accounts.values()} == {"done"}
    for name, folder in alone(jobs, tmp_path / "alone").items():
        assert results(tmp_path / "together" / name) == results(folder)
    assert share_device(jobs, device="cpu") == {}


def test_a_fed_run_gives_the_same_bytes(tmp_path: Path, make_config: Any, results: Any) -> None:
    config = make_config(stages=(12, 16), test_stages=())
    run_curriculum(config, tmp_path / "alone")
    seat = Seat(feeder=Feeder())
    run_curriculum(config, tmp_path / "fed", seat=seat)
    assert seat.feeder is not None
    seat.feeder.close()
    assert results(tmp_path / "fed") == results(tmp_path / "alone")
    assert seat.taken == RunFolder.open(tmp_path / "fed").summary()["steps"]


def test_the_end_of_the_time_leaves_checkpoints_and_the_next_session_the_same_bytes(
    tmp_path: Path, make_config: Any, results: Any
) -> None:
    jobs = jobs_in(tmp_path / "parts", make_config, range(2), pass_mark=1.0)

    def stop_after(steps: int) -> Any:
        def watch(board: Board, taken: tuple[int, ...]) -> None:
            board.stop.requested |= sum(taken) >= steps

        return watch

    accounts = share_device(jobs, device="cpu", at_once=2, watch=stop_after(1))
    assert "stopped" in {account.state for account in accounts.values()}
    accounts = share_device(jobs, device="cpu", at_once=2)
    assert {account.state for account in accounts.values()} <= {"done"}
    for name, folder in alone(jobs, tmp_path / "whole").items():
        assert results(tmp_path / "parts" / name) == results(folder)
    sessions = [line for job in jobs for line in read_lines(job.folder / SESSIONS)]
    assert len(sessions) >= 3
    for line in sessions:
        assert 0 < line["device_seconds"] <= line["seconds"]


CHILD = """
import json, sys
from pathlib import Path
from lt2theory.training import CurriculumConfig, Job, share_device
root, *configs = json.loads(Path(sys.argv[1]).read_text())
made = [CurriculumConfig.model_validate(config) for config in configs]
share_device([Job(c, Path(root, f"seed{c.seed}")) for c in made], device="cpu", at_once=2)
"""


@pytest.mark.slow
def test_a_killed_session_goes_on_to_the_same_bytes(
    tmp_path: Path, make_config: Any, results: Any
) -> None:
    jobs = jobs_in(
        tmp_path / "parts", make_config, range(2), step_budget=75, min_steps=75, threads=1
    )
    asked = [str(tmp_path / "parts"), *(job.config.to_json() for job in jobs)]
    (tmp_path / "jobs.json").write_text(json.dumps(asked))
    command = [sys.executable, "-c", CHILD, str(tmp_path / "jobs.json")]
    with subprocess.Popen(command) as process:
        while not all(list(job.folder.glob("checkpoints/*-step-*")) for job in jobs):
            assert process.poll() is None
            time.sleep(0.02)
        process.kill()
    assert "unfinished" in [run_status(job.folder) for job in jobs]
    with warnings.catch_warnings():
        # The killed process had another number of threads, and the revision is not a fixed one.
        warnings.filterwarnings("ignore", ".*is resumed at step .* under another environment")
        share_device(jobs, device="cpu", at_once=2)
    for name, folder in alone(jobs, tmp_path / "whole").items():
        assert results(tmp_path / "parts" / name) == results(folder)


def test_a_session_of_no_time_stops_at_once(tmp_path: Path, make_config: Any) -> None:
    jobs = jobs_in(tmp_path, make_config, range(2), step_budget=100_000, pass_mark=1.0)
    accounts = share_device(jobs, device="cpu", seconds=0.3)
    assert [account.state for account in accounts.values()] == ["stopped", "waiting"]
    assert [run_status(job.folder) for job in jobs] == ["unfinished", "absent"]


def test_a_signal_stops_all_with_checkpoints(tmp_path: Path, make_config: Any) -> None:
    jobs = jobs_in(tmp_path, make_config, range(2), step_budget=100_000, pass_mark=1.0)

    sent: list[int] = []

    def watch(board: Board, taken: tuple[int, ...]) -> None:
        if sum(taken) > 20 and not sent:
            sent.append(1)
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(Interrupted):
        share_device(jobs, device="cpu", at_once=2, watch=watch)
    assert all(RunFolder.open(job.folder).checkpoints() for job in jobs)


def test_runs_that_end_in_time_begin_first_and_no_time_is_left_unused(
    tmp_path: Path, make_config: Any
) -> None:
    short, long, longest, unknown = jobs_in(tmp_path, make_config, range(4))
    jobs = [
        Job(long.config, long.folder, 90.0),
        Job(longest.config, longest.folder, 200.0),
        Job(short.config, short.folder, 10.0),
        Job(unknown.config, unknown.folder),
    ]

    def order(left: float) -> list[str]:
        board = Board(jobs, at_once=4, seconds=100.0)
        board._start -= 100.0 - left
        taken = iter(board.take, None)
        return [job.folder.name for job in taken]

    assert order(95.0) == ["seed1", "seed2", "seed0", "seed3"]
    assert order(60.0) == ["seed2", "seed0", "seed3", "seed1"]
    assert order(30.0) == ["seed0", "seed3", "seed1", "seed2"]
    assert order(15.0) == ["seed0", "seed3"]
    assert order(5.0) == ["seed3"]
    with RunFolder.writing(
        long.folder,
        kind="curriculum",
        config={},
        identity={"label": "a", "seed": 0, "task": "parity"},
    ):
        pass
    assert order(5.0) == ["seed1", "seed3"]  # what has begun goes on, and comes first


def test_time_of_the_device_is_shared(tmp_path: Path, make_config: Any) -> None:
    jobs = jobs_in(tmp_path, make_config, range(2))
    board = Board(jobs, at_once=2, seconds=None)
    assert [board.take(), board.take()] == jobs
    board._clock -= 10.0
    board.end(jobs[0], "done")
    board._clock -= 4.0
    board.end(jobs[1], "done")
    first, second = (board.accounts[job.folder] for job in jobs)
    assert first.seconds == pytest.approx(10, abs=0.5)
    assert first.device_seconds == pytest.approx(5, abs=0.5)
    assert second.seconds == pytest.approx(14, abs=0.5)
    assert second.device_seconds == pytest.approx(9, abs=0.5)


def test_too_little_memory_runs_fewer_at_once(
    tmp_path: Path, make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = jobs_in(tmp_path, make_config, range(3))
    refused: list[str] = []

    def carry_out(config: Any, folder: Path, *, seat: Seat) -> None:
        if folder.name == "seed1" and not refused:
            refused.append(folder.name)
            raise torch.OutOfMemoryError("CUDA out of memory")
        run_curriculum(config, folder, seat=seat)

    monkeypatch.setattr("lt2theory.training.sharing.run_curriculum", carry_out)
    accounts = share_device(jobs, device="cpu", at_once=2)
    assert {account.state for account in accounts.values()} == {"done"}
    refused.clear()
    alone = jobs_in(tmp_path / "alone", make_config, range(1, 2))
    (account,) = share_device(alone, device="cpu").values()
    assert (account.state, account.message) == ("failed", "OutOfMemoryError: CUDA out of memory")


def test_a_run_that_fails_or_is_busy_spares_the_others(tmp_path: Path, make_config: Any) -> None:
    broken, busy, good = jobs = jobs_in(tmp_path, make_config, range(3))
    broken.folder.mkdir()
    (broken.folder / "notes.txt").write_text("not a run")
    config = busy.config
    with RunFolder.writing(
        busy.folder, kind="curriculum", config=config.to_json(), identity=config.identity()
    ):
        accounts = share_device(jobs, device="cpu")
    assert [accounts[job.folder].state for job in jobs] == ["failed", "busy", "done"]
    assert "is not empty and not a run" in accounts[broken.folder].message
    assert run_status(good.folder) == "done"


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {"at_once": 0}, "at_once: got 0, allowed are whole numbers >= 1"),
        ({}, {"seconds": 0.0}, "seconds: got 0.0, allowed are numbers > 0"),
        ({}, {"device": "cuda"}, "device: got 'cuda' for a run with device='cpu'"),
        ({"deterministic": True}, {"at_once": 2}, "at_once: got 2 with a deterministic run"),
    ],
)
def test_bad_sessions_are_refused(
    tmp_path: Path, make_config: Any, changes: Any, options: Any, message: str
) -> None:
    jobs = jobs_in(tmp_path, make_config, range(1), **changes)
    with pytest.raises(ValueError, match=message):
        share_device(jobs, **{"device": "cpu", **options})
    assert not jobs[0].folder.exists()
