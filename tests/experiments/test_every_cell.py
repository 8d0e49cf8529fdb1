"""Every cell of the studies is built, trained, evaluated, tested and written before a GPU sees it.

Only the numbers of rows and steps are cut: task, lengths, model, dtype and recipe are the cell's.
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from lt2theory.experiments.cells import Cell
from lt2theory.experiments.studies import studies
from lt2theory.experiments.study_table import study_table
from lt2theory.training import CurriculumConfig, Runtime, run_curriculum
from lt2theory.training.draws import training_batch
from lt2theory.training.selection import new_model
from lt2theory.training.stepper import GraphStepper

STUDIES = ("loops", "tune-recall", "tune-s5")
CELLS = {cell.name: cell for name in STUDIES for cell in studies()[name]()}
CUT = {
    "batch_size": 2,
    "step_budget": 2,
    "min_steps": 0,
    "evaluate_every": 2,
    "evaluation_size": 64,
    "confirmation_size": 64,
    "test_size": 64,
}
SAMPLE = (
    "recall-gdn-window-t1-s0",
    "s5-t4-accumulate-s0",
    "s3-t2-rescan-exact-s0",
    "s3-t1-hgrn2-s0",
    "parity-t2-accumulate-beta1-s0",
    "mqar-gdn-k8-t1-s0",
    "p-hop-full-gdn-t1-s0",
    "needle-softmax-t1-s0",
    "distance-t4-s0",
    "s5-t4-accumulate-all-try0-s1000",
)
"""A cell of every task, both loop states and both dtypes."""
ARMS = sorted(
    (name for name, cell in CELLS.items() if cell.config.seed == 0),
    key=lambda name: "-kda-" not in name,
)
"""One cell an arm, those of KDA first: FLA's kernels for it are tuned the longest."""
ONE_AN_ARM = list({name.rpartition("-s")[0]: name for name in reversed(CELLS)}.values())
"""As `ARMS`, with arms whose seeds do not begin at 0."""
WAITS = {"_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal", "_unique2"}
"""Operators that bring a number to the host, or whose shape depends on numbers."""


def cut(cell: Cell, **changes: Any) -> Cell:
    """The cell with few rows and steps."""
    config = CurriculumConfig.model_validate(cell.config.model_dump() | CUT | changes)
    return Cell(name=cell.name, block=cell.block, config=config, exploratory=cell.exploratory)


def carry_out(cell: Cell, root: Path) -> None:
    """Train, evaluate and test a cut cell, and read its rows of the study's table."""
    summary = run_curriculum(cell.resolved, root / cell.run().folder)
    assert (summary.status, summary.steps) == ("budget_exhausted", 2)
    rows = study_table((cell,), root)
    assert set(rows["cell"]) == {cell.name}
    assert {"train", "eval", "run"} <= set(rows["split"])
    tested = [*cell.config.stages[:1], *cell.config.test_stages] if cell.config.test else []
    assert {int(stage) for stage in rows[rows["split"] == "test"]["stage"]} == set(tested)


@pytest.mark.parametrize("name", SAMPLE)
def test_a_cell_of_every_kind_runs(name: str, tmp_path: Path) -> None:
    carry_out(cut(CELLS[name]), tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", "admnprsz")
def test_every_cell_runs(first: str, tmp_path: Path) -> None:
    for name in ONE_AN_ARM:
        if name.startswith(first):
            carry_out(cut(CELLS[name]), tmp_path)


def test_the_initials_are_all() -> None:
    assert {name[0] for name in CELLS} == set("admnprsz")


@pytest.mark.gpu
@pytest.mark.timeout(900)  # FLA's kernels are tuned for minutes on a machine that has not run them
@pytest.mark.parametrize("name", ARMS)
def test_every_arm_is_recorded_as_a_graph(name: str, tmp_path: Path) -> None:
    carry_out(cut(CELLS[name].on("cuda"), batch_size=64), tmp_path)


class _Waits(TorchDispatchMode):
    """Counts the operators for which a host would wait."""

    def __init__(self) -> None:
        super().__init__()
        self.found: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func).split(".")[1]
        masks = name in ("index", "index_put", "index_put_") and any(
            index is not None and index.dtype == torch.bool for index in args[1]
        )
        if name in WAITS or masks:
            self.found[name] += 1
        return func(*args, **(kwargs or {}))


def waits_of(cell: Cell, stage: int) -> Counter[str]:
    """What a step and an evaluation wait for, but for the range of ids, read on a CPU alone."""
    config = cut(cell).resolved
    runtime = Runtime.of("cpu", config.dtype)
    stepper = GraphStepper(new_model(config, runtime), config, runtime)
    batch = training_batch(config.task.create(), config, stage, 0)
    stepper.take(batch, 1e-3)
    stepper.model.eval()
    with _Waits() as waits:
        stepper._run()
        with torch.no_grad(), runtime.autocast():  # as an evaluation is recorded
            stepper.model(runtime.tensor(batch.inputs))
    waits.found.subtract({"_local_scalar_dense": 2 * 2})
    return +waits.found


@pytest.mark.parametrize("name", ["s5-t4-accumulate-s0", "recall-gdn-window-t1-s0"])
def test_no_step_waits_for_the_device(name: str) -> None:
    assert not waits_of(CELLS[name], CELLS[name].config.stages[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ARMS)
def test_no_arm_waits_for_the_device_at_its_longest(name: str) -> None:
    assert not waits_of(CELLS[name], CELLS[name].config.stages[-1])
