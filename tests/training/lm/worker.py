"""One process of several that carry out runs after each other: python worker.py JOBS.json.

Each job has `config`, `how`, `data`, `folder`, `port`; and, for one of the processes, `fault`: a
rank, a step and what happens to it there. A line a job says how it ended.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from lt2theory.training import Interrupted
from lt2theory.training.lm import Execution, LmConfig, run_lm
from lt2theory.training.lm.step import LmStepper

APPLY = LmStepper.apply


def carry_out(job: dict[str, Any]) -> None:
    os.environ["MASTER_PORT"] = str(job["port"])
    arrange(job.get("fault"))
    config = LmConfig.model_validate(job["config"])
    execution = Execution.model_validate(job["how"])
    run_lm(config, execution, data=Path(job["data"]), folder=Path(job["folder"]))


def arrange(fault: dict[str, Any] | None) -> None:
    """Let a signal come to a process during a step."""
    taken = 0

    def apply(self: LmStepper, rate: float) -> None:
        nonlocal taken
        APPLY(self, rate)
        taken += 1
        if fault and self.ranks.rank == fault["rank"] and taken == fault["step"]:
            os.kill(os.getpid(), signal.Signals[fault["signal"]])

    LmStepper.apply = apply  # type: ignore[method-assign]


def main() -> None:
    for job in json.loads(Path(sys.argv[1]).read_text()):
        outcome = "done"
        try:
            carry_out(job)
        except (Interrupted, ValueError) as error:
            outcome = f"{type(error).__name__}: {error}"
        print(f"{Path(job['folder']).name}: {outcome}", flush=True)


if __name__ == "__main__":
    main()
