"""A session whose process kills itself during a step: python -m ... FOLDER ROOT STEP."""

import os
import signal
import sys
from pathlib import Path

import torch

from lt2theory.experiments.linearization.session import carry_out_linear
from lt2theory.experiments.linearization.studies import study_cells
from lt2theory.experiments.serial import SerialSession
from lt2theory.training.lm.step import LmStepper
from tests.experiments.linearization.cut import cut, make_materials

APPLY = LmStepper.apply
NAMES = ("mixers-gdn-s0", "starts-conv-width-0-s0")
"""The cells of the small study."""


def small_cells():  # type: ignore[no-untyped-def]
    """Two cells of two and one stages."""
    known = {cell.name: cell for cell in study_cells("all")}
    return tuple(cut(known[name], steps=2) for name in NAMES)


def kill_in(step: int) -> None:
    """Kill this process after so many steps, counted from here."""
    taken = 0

    def apply(self: LmStepper, rate: float) -> None:
        nonlocal taken
        APPLY(self, rate)
        taken += 1
        if taken == step:
            os.kill(os.getpid(), signal.SIGKILL)

    LmStepper.apply = apply  # type: ignore[method-assign]


def main() -> None:
    folder, root, step = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    kill_in(step)
    cells = small_cells()
    carry_out_linear(cells, cells, SerialSession(), make_materials(folder, root))


if __name__ == "__main__":
    main()
