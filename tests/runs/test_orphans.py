import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from lt2theory.runs.orphans import ends_with

ORPHAN = """
import os, signal, sys, time
from pathlib import Path
from lt2theory.runs.orphans import ends_with
from lt2theory.training.signals import Interrupted, stop_requests
with ends_with(int(sys.argv[1]), interval=0.05):
    try:
        with stop_requests() as stop:
            Path(sys.argv[2], "working").touch()
            while True:
                time.sleep(0.01)
                stop.check()
    except Interrupted:
        Path(sys.argv[2], "stopped").touch()
Path(sys.argv[2], "went on").touch()
"""
PARENT = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid()), sys.argv[2]])
time.sleep(600)
"""


def test_a_child_ends_its_work_when_its_parent_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PARENT, ORPHAN, str(tmp_path)]
    # The pipe closes when the last process that holds it, the child, is gone.
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        deadline = time.monotonic() + 60
        while not (tmp_path / "working").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        parent.kill()
        parent.communicate(timeout=60)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stopped", "working"]


def test_nothing_is_watched_in_the_parent_itself() -> None:
    threads = threading.active_count()
    with ends_with(os.getpid()):
        assert threading.active_count() == threads


def test_work_that_ends_first_is_left_alone() -> None:
    threads = threading.active_count()
    with ends_with(os.getppid(), interval=0.01):
        assert threading.active_count() == threads + 1
    assert threading.active_count() == threads
