import json
import socket
from pathlib import Path
from typing import Any

import pytest

from lt2theory.runs.executors import base
from lt2theory.runs.executors.base import Assignment, attempt, attempt_anywhere, extra
from lt2theory.runs.lock import LOCK_NAME


def touch(config: dict[str, Any], folder: Path, threads: int) -> None:
    """Stands in for a trainer."""
    if config.get("fails"):
        raise ArithmeticError("over\nlines")
    folder.mkdir(exist_ok=True)
    (folder / "done").write_text(str(threads))


def test_an_attempt_tells_how_it_ended(tmp_path: Path) -> None:
    ending = attempt(touch, Assignment({}, tmp_path / "run"), 3)
    assert (ending.folder, ending.fault, ending.attempts) == (tmp_path / "run", None, 1)
    assert (tmp_path / "run" / "done").read_text() == "3"
    failed = attempt(touch, Assignment({"fails": True}, tmp_path / "other"), 1)
    assert failed.fault == "ArithmeticError: over lines"


def test_a_folder_that_another_machine_does_not_see_is_named(tmp_path: Path) -> None:
    ending = attempt_anywhere(touch, Assignment({}, tmp_path / "study" / "run"), 1)
    assert ending.fault is not None
    assert f"study is not there on host {socket.gethostname()}" in ending.fault
    assert not (tmp_path / "study").exists()


def test_a_lock_of_a_dead_worker_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    lock = folder / LOCK_NAME
    lock.write_text(json.dumps({"host": "elsewhere", "pid": 1, "started": None}))
    waited: list[Path] = []
    monkeypatch.setattr(base, "await_release", waited.append)
    assert attempt_anywhere(touch, Assignment({}, folder), 1).fault is None
    assert waited == [folder]


def test_a_missing_extra_is_named() -> None:
    with pytest.raises(ValueError, match=r"no_such_thing is not installed; pip install 'lt2theory"):
        extra("no_such_thing")
