"""The studies that `lt2 curriculum study` knows by name."""

from collections.abc import Callable
from functools import partial

from lt2theory.experiments.cells import Cell, Cells
from lt2theory.experiments.recipes import parity
from lt2theory.experiments.study_cells import loops
from lt2theory.experiments.study_tuning import SEEDS, tuning_cells
from lt2theory.training import CurriculumConfig


def smoke() -> Cells:
    """A study of seconds, to see that the machinery runs: parity, solved and out of reach.

    Returns:
        Three cells.
    """
    quick = {"stages": (8, 12), "test_stages": (16,), "min_steps": 0, "step_budget": 60}
    sizes = {"evaluation_size": 64, "confirmation_size": 128, "test_size": 64, "evaluate_every": 20}
    cells = []
    for negative, seed in ((True, 0), (True, 1), (False, 0)):
        config = parity(negative_eigenvalues=negative, seed=seed)
        config = CurriculumConfig.model_validate(config.model_dump() | quick | sizes)
        upper = 2 if negative else 1
        name = f"parity-beta{upper}-s{seed}"
        cells.append(Cell(name=name, block=upper, config=config, expected_steps=40))
    return tuple(cells)


def studies() -> dict[str, Callable[[], Cells]]:
    """The studies by name.

    Returns:
        Name and the function that makes its cells.
    """
    searches = {f"tune-{name}": partial(tuning_cells, name) for name in SEEDS}
    return {"loops": loops, **searches, "smoke": smoke}
