import errno
import os
from pathlib import Path
from typing import Any

import pytest

from lt2theory.runs import DiskFullError, RunFolder, run_status

RECORD = {"step": 1, "stage": 8, "split": "train", "metrics": {"loss": 0.5}}


def test_a_run_goes_from_absent_to_done(tmp_path: Path, writing: Any, config: Any) -> None:
    path = tmp_path / "deep" / "run"
    assert run_status(path) == "absent"
    with writing(path) as run:
        assert run.status == "unfinished"
        run.write_summary({"status": "solved"})
    assert run_status(path) == "done"
    found = RunFolder.open(path)
    assert (found.kind, found.config, found.identity["seed"]) == ("curriculum", config, 3)
    assert found.summary() == {"status": "solved"}
    assert sorted(entry.name for entry in path.iterdir()) == ["config.json", "summary.json"]


def test_the_same_configuration_continues(tmp_path: Path, writing: Any, config: Any) -> None:
    with writing() as run:
        run.append_metrics(RECORD)
    reordered = dict(reversed(list(config.items())))
    with writing(config=reordered) as run:
        assert run.metrics() == [RECORD]


def test_a_locked_run_is_refused_even_to_overwrite(writing: Any, run: RunFolder) -> None:
    with pytest.raises(ValueError, match="being written by process"), writing(overwrite=True):
        pytest.fail("two writers")


def test_reading_what_is_no_run_names_it(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="missing is not a folder"):
        RunFolder.open(tmp_path / "missing")
    with pytest.raises(ValueError, match=r"is not a run: it has no config\.json"):
        RunFolder.open(tmp_path)
    (tmp_path / "config.json").write_text('{"kind": "x"}')
    with pytest.raises(ValueError, match="lacks hash, identity, config"):
        RunFolder.open(tmp_path)


def test_an_unfinished_run_has_no_summary(run: RunFolder) -> None:
    with pytest.raises(ValueError, match="is not finished"):
        run.summary()


def test_metrics_are_cut_back_to_a_checkpoint(run: RunFolder) -> None:
    run.append_metrics(RECORD)
    size = run.metrics_size()
    before = (run.path / "metrics.jsonl").read_bytes()
    run.append_metrics(RECORD | {"step": 2})
    with (run.path / "metrics.jsonl").open("ab") as stream:
        stream.write(b'{"step": 3')
    run.cut_metrics(size)
    assert (run.path / "metrics.jsonl").read_bytes() == before
    with pytest.raises(ValueError, match=rf"holds {size} bytes, but the checkpoint .* {size + 1}"):
        run.cut_metrics(size + 1)


def test_cutting_to_nothing_before_the_first_record(run: RunFolder) -> None:
    run.cut_metrics(0)
    assert run.metrics() == []


def test_the_last_two_checkpoints_are_kept(run: RunFolder) -> None:
    for step in (5, 5, 90):
        run.save_checkpoint(step, {"state": str(step).encode()})
    newest, before = run.checkpoints()
    assert newest.name == "000003-step-90"
    assert before.name == "000002-step-5"
    assert (newest / "state").read_bytes() == b"90"


def test_a_full_disk_keeps_the_earlier_checkpoint(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.save_checkpoint(1, {"a": b"1", "b": b"1"})
    calls = []

    def full_at_second(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_at_second)
    with pytest.raises(DiskFullError, match="the last complete checkpoint is intact"):
        run.save_checkpoint(2, {"a": b"2", "b": b"2"})
    (left,) = (run.path / "checkpoints").iterdir()
    assert left.name == "000001-step-1"
    assert (left / "b").read_bytes() == b"1"


def test_a_new_run_that_is_refused_leaves_nothing(tmp_path: Path, writing: Any) -> None:
    path = tmp_path / "run"
    with pytest.raises(ValueError, match="no such thing"), writing(path):
        raise ValueError("no such thing")
    assert list(path.iterdir()) == []
    with writing(path) as run:
        run.append_metrics(RECORD)
    with pytest.raises(ValueError, match="later"), writing(path):
        raise ValueError("later")
    assert RunFolder.open(path).metrics() == [RECORD]
