"""A linearization whose process kills itself during a step: python killed.py FOLDER STAGE STEP."""

import os
import signal
import sys
from pathlib import Path

import torch

from lt2theory.linearize.engine import run_recipe
from lt2theory.training.lm import Execution
from lt2theory.training.lm.step import LmStepper
from tests.linearize.runs import make_recipe, make_sources

APPLY = LmStepper.apply


def main() -> None:
    folder, stage, step = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(1)
    taken = 0

    def apply(self: LmStepper, rate: float) -> None:
        nonlocal taken
        APPLY(self, rate)
        taken += self.config.label == stage
        if taken == step:
            os.kill(os.getpid(), signal.SIGKILL)

    LmStepper.apply = apply  # type: ignore[method-assign]
    sources = make_sources(folder / "sources")
    run_recipe(make_recipe(), Execution(checkpoint_every=2), sources, folder=folder / "run")


if __name__ == "__main__":
    main()
