import json
import os
import time
from pathlib import Path

import pytest

from lt2theory.runs.lease import Watch, renewed
from lt2theory.runs.lock import LOCK_NAME, LockedError, await_release, locked

ELSEWHERE = json.dumps({"host": "elsewhere", "pid": 1, "started": None})


def test_a_held_lock_is_renewed_and_a_released_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("")
    os.utime(path, (0, 0))
    watch = Watch(path)
    with renewed(path, interval=0.02):
        deadline = time.monotonic() + 30
        while not watch.renewals and time.monotonic() < deadline:
            time.sleep(0.01)
            watch.silence()
    assert watch.renewals
    os.utime(path, (0, 0))
    time.sleep(0.1)
    assert path.stat().st_mtime == 0


def test_a_lock_that_cannot_be_touched_is_no_error(tmp_path: Path) -> None:
    with renewed(tmp_path / "gone", interval=0.01):
        time.sleep(0.05)


def test_silence_is_counted_from_the_last_change(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("")
    watch = Watch(path)
    time.sleep(0.05)
    assert watch.silence() >= 0.05
    os.utime(path, (0, 0))
    assert watch.silence() < 0.05
    path.unlink()
    watch.silence()
    assert watch.renewals == 2


def test_the_lock_of_a_host_that_died_is_removed_after_its_lease(tmp_path: Path) -> None:
    await_release(tmp_path / "absent")
    (tmp_path / LOCK_NAME).write_text(ELSEWHERE)
    start = time.monotonic()
    await_release(tmp_path, lease=0.2, interval=0.02)
    assert time.monotonic() - start >= 0.2
    with locked(tmp_path):
        pass


def test_a_lock_that_another_host_renews_is_refused(tmp_path: Path) -> None:
    path = tmp_path / LOCK_NAME
    path.write_text(ELSEWHERE)
    os.utime(path, (0, 0))
    with renewed(path, interval=0.05), pytest.raises(LockedError, match="on host elsewhere"):
        await_release(tmp_path, lease=30.0, interval=0.01)
    assert path.exists()
