import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from lt2theory.runs.lock import LOCK_NAME, locked

HOLD = """
import sys, time
from pathlib import Path
from lt2theory.runs.lock import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_living_holder_is_named_and_a_killed_one_is_replaced(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        with (
            pytest.raises(ValueError, match=f"being written by process {process.pid} on host"),
            locked(tmp_path),
        ):
            pytest.fail("a second writer got in")
        process.kill()
        process.wait()
    assert (tmp_path / LOCK_NAME).exists()
    with locked(tmp_path):
        assert json.loads((tmp_path / LOCK_NAME).read_text())["pid"] == os.getpid()
    assert list(tmp_path.iterdir()) == []


def test_a_dead_process_that_nobody_has_waited_for_counts_as_dead(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        with locked(tmp_path):
            assert json.loads((tmp_path / LOCK_NAME).read_text())["pid"] == os.getpid()


def test_the_same_process_cannot_enter_twice(tmp_path: Path) -> None:
    with locked(tmp_path):
        with pytest.raises(ValueError, match="being written by process"), locked(tmp_path):
            pytest.fail("entered twice")
        assert (tmp_path / LOCK_NAME).exists()
    assert list(tmp_path.iterdir()) == []


def test_another_host_is_never_taken_over(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).write_text(json.dumps({"host": "elsewhere", "pid": 1, "started": None}))
    with pytest.raises(ValueError, match="on host elsewhere"), locked(tmp_path):
        pytest.fail("taken over")


def test_a_process_number_given_to_a_newer_process_is_stale(tmp_path: Path) -> None:
    held = {"host": socket.gethostname(), "pid": os.getpid(), "started": "an earlier boot:1"}
    (tmp_path / LOCK_NAME).write_text(json.dumps(held))
    with locked(tmp_path):
        assert json.loads((tmp_path / LOCK_NAME).read_text()) != held


def test_the_lock_is_released_by_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="inside"), locked(tmp_path):
        raise RuntimeError("inside")
    assert list(tmp_path.iterdir()) == []
