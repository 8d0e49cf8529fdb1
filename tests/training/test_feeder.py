"""Batches from another process: the bytes of those made here, whatever is asked for in turn."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lt2theory.training import TaskConfig, resolve
from lt2theory.training.draws import training_batch
from lt2theory.training.feeder import STEPS, Feeder


@pytest.fixture(scope="module")
def feeder() -> Any:
    with contextlib.closing(Feeder()) as made:
        yield made


def test_stages_end_and_runs_follow_each_other(feeder: Feeder, make_config: Any) -> None:
    recall = TaskConfig(name="state_based_recall", knobs={"supervision": "dense"})
    one = resolve(make_config())
    other = resolve(make_config(task=recall, stages=(1, 2), test_stages=(), seed=3))
    wanted = [(one, 12, step) for step in range(2 * STEPS + 1)]
    wanted += [(one, 16, step) for step in range(2 * STEPS + 1, 2 * STEPS + 4)]
    wanted += [(other, 1, 5), (other, 2, 6), (one, 12, 0), (one, 12, 40), (one, 12, 41)]
    for config, stage, step in wanted:
        made = feeder.batch(config, stage, step)
        here = training_batch(config.task.create(), config, stage, step)
        for array, expected in zip(made, here, strict=True):
            assert array.dtype == expected.dtype
            assert np.array_equal(array, expected)


def test_an_error_is_raised_here_and_the_process_goes_on(feeder: Feeder, make_config: Any) -> None:
    config = resolve(make_config())
    with pytest.raises(ValueError, match="stage: 0 is not allowed"):
        feeder.batch(config, 0, 0)
    assert feeder.batch(config, 12, 0).inputs.shape == (16, 12)


def test_a_process_that_has_ended_is_named(make_config: Any) -> None:
    feeder = Feeder()
    feeder._process.terminate()
    feeder._process.join()
    with pytest.raises(RuntimeError, match="the process that makes batches has ended"):
        feeder.batch(resolve(make_config()), 12, 0)
    feeder.close()


CHILD = """
import sys, time
from lt2theory.training.feeder import Feeder
if __name__ == "__main__":
    print(Feeder()._process.pid, flush=True)
    time.sleep(600)
"""


def test_it_ends_with_the_process_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "child.py").write_text(CHILD)
    command = [sys.executable, str(tmp_path / "child.py")]
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
    ) as parent:
        assert parent.stdout is not None
        number = int(parent.stdout.readline())
        parent.kill()
    until = time.monotonic() + 30
    while time.monotonic() < until and Path(f"/proc/{number}/cmdline").exists():
        if not Path(f"/proc/{number}/cmdline").read_bytes():
            break  # a zombie, which nobody has waited for
        time.sleep(0.1)
    else:
        assert not Path(f"/proc/{number}").exists()
