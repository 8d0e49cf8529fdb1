"""Kills and full disks at events of the file system all along a run, a linearization, a choice."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow  # a process for every event
@pytest.mark.parametrize("how", ["kill", "full"])
@pytest.mark.parametrize("verb", ["train", "run", "select"])
def test_whatever_hits_it_the_same_call_ends_as_undisturbed(
    verb: str, how: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.linearize.disturbed", str(tmp_path), verb, how]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=280, check=False
    )
    assert ended.returncode == 0, ended.stderr
    *wrong, events = ended.stdout.splitlines()
    assert wrong == [], ended.stderr
    assert int(events.split()[0]) > 30
