"""How long a cell takes on a GPU: from measured steps, by a formula where there are none."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lt2theory.experiments.cells import Cell
from lt2theory.experiments.costs_finished import finished_ms
from lt2theory.experiments.study_steps import measured_steps
from lt2theory.mixers import MIXERS, LinearMixer

AT_ONCE = 4
"""Cells that shared the GPU in the measurements, and do so where nothing else is asked for."""
STAGE_SECONDS = 0.5
"""Of the GPU's time, for a stage's recording and its confirmation; an estimate."""
TEST_STEPS = 80
"""A stage's test takes as long as so many of its steps: 13.6 s of the GPU's time for the eight
stages of recall-gdn-window-t4-s0, 4,096 rows each."""


@dataclass(frozen=True)
class Measured:
    """A training step on one H200 with `AT_ONCE` cells of the kind at once, batches and all.

    Attributes:
        mixers: Names of the mixers in the pattern, sorted.
        loop_state: `rescan` or `accumulate`.
        block_passes: Blocks times loops.
        flops: `lt2theory.models.flops.step_flops` of the step.
        ms: Milliseconds of the GPU's time: those on the clock divided by the cells at once.
        dtype: That of the run.
    """

    mixers: tuple[str, ...]
    loop_state: str
    block_passes: int
    flops: float
    ms: float
    dtype: str = "bfloat16"


MEASURED: tuple[Measured, ...] = (
    Measured(("gdn",), "rescan", 4, 4.545e10, 2.04),
    Measured(("gdn",), "rescan", 16, 4.256e11, 12.07),
    Measured(("gdn",), "rescan", 16, 3.024e12, 50.78),
    Measured(("gdn", "window"), "rescan", 16, 4.856e11, 11.5),
    Measured(("gdn", "window"), "rescan", 16, 8.271e11, 14.2),
    Measured(("gdn", "window"), "rescan", 16, 1.511e12, 22.0),
    Measured(("gdn", "window"), "rescan", 16, 2.879e12, 33.8),
    Measured(("gdn", "window"), "rescan", 16, 5.614e12, 58.6),
    Measured(("deltanet",), "rescan", 1, 8.777e8, 1.1, "float32"),
    Measured(("deltanet",), "rescan", 4, 3.228e9, 1.4, "float32"),
    Measured(("deltanet",), "accumulate", 4, 3.681e9, 1.5, "float32"),
)
"""From results/study-throughput-h200.json, evaluations with the steps. In those of GDN one that
still had to compile lies in the counted seconds, so that real steps are shorter; those of
GDN+Window had three at once, recording with them; those of DeltaNet are means over a search."""

PASS_MS = 0.36
"""Launches of a pass through a GDN block, forwards and backwards, in bfloat16."""
FLOP_MS = 1.49e-11
"""Of a multiplication or addition. With `PASS_MS` it gives `MEASURED` to within 4 %."""
PASSES: dict[str, float] = {
    "full": 0.5,
    "window": 0.6,
    "deltanet": 0.9,
    "retnet": 1.0,
    "mamba2": 1.0,
    "nsa": 1.1,
    "mlstm": 1.1,
    "dsa": 1.2,
    "gla": 1.2,
    "hgrn2": 1.2,
    "kda": 1.5,
}
"""Launches of a mixer's block beside those of GDN (1): estimates, from operations counted in plain
torch around the recurrence and from how many kernels the backend of `auto` has for it."""
PLAIN_PASSES = 1.2
"""What is added to those of a linear mixer in float32, whose recurrence `auto` then runs in plain
torch: an estimate, from the same counts."""


@dataclass(frozen=True)
class Cost:
    """What a cell is expected to cost of the GPU's time.

    Attributes:
        seconds: If every stage takes the steps that are expected.
        estimated: Whether a step comes from the formula, not from measured steps of the kind.
    """

    seconds: float
    estimated: bool


def step_ms(cell: Cell, stage: int, measured: Sequence[Measured] | None = None) -> float | None:
    """What a training step costs of the GPU's time, as far as it was measured.

    Steps of the same mixers, loop state and dtype serve, whatever their sizes, those with as many
    passes through a block before others: milliseconds a pass are linear in its products between two
    measurements, proportional to them above, and those of the smallest below, where the launches
    count.

    Args:
        cell: A cell.
        stage: One of its stages.
        measured: The table; `MEASURED` if None.

    Returns:
        Milliseconds; None if nothing of the kind was measured.
    """
    model = cell.resolved.model
    mixers = tuple(sorted({spec.mixer for loop in model.loops for spec in loop}))
    wanted = mixers, model.loop_state, cell.config.dtype
    table = MEASURED if measured is None else measured
    kind = [row for row in table if (row.mixers, row.loop_state, row.dtype) == wanted]
    if not kind:
        return None
    passes = model.num_layers * model.num_loops
    kind = [row for row in kind if row.block_passes == passes] or kind
    points = sorted((row.flops / row.block_passes, row.ms / row.block_passes) for row in kind)
    return passes * _along(points, cell.step_flops(stage) / passes)


def estimated_ms(cell: Cell, stage: int) -> float:
    """What a training step costs of the GPU's time by a formula: launches and products, as GDN's.

    Args:
        cell: A cell.
        stage: One of its stages.

    Returns:
        Milliseconds.
    """
    model = cell.resolved.model
    plain = cell.config.dtype == "float32" and model.backend == "auto"
    passes = 0.0
    for loop in model.loops:
        for spec in loop:
            passes += PASSES.get(spec.mixer, 1.0)
            if plain and issubclass(MIXERS[spec.mixer], LinearMixer):
                passes += PLAIN_PASSES
    return PASS_MS * passes + FLOP_MS * cell.step_flops(stage)


def gpu_cost(cell: Cell, *, measured: Sequence[Measured] | None = None) -> Cost:
    """What a cell is expected to cost of the GPU's time.

    By what a step of finished cells took with all that goes with it, where `finished_ms` knows of
    any. Else by measured steps: evaluations are part of them; recording a stage's step, confirming
    it and the tests at the end are added.

    Args:
        cell: A cell.
        measured: The table of steps to go by, finished cells left aside; `MEASURED` if None.

    Returns:
        The seconds, and whether they are an estimate.
    """
    whole = finished_ms(cell) if measured is None else None
    if whole is not None:
        return Cost(cell.steps() * whole / 1e3, estimated=False)
    total, estimated = 0.0, False
    tests = TEST_STEPS if cell.config.test else 0
    for stage, steps in cell.steps_by_stage().items():
        ms = step_ms(cell, stage, measured)
        if ms is None:
            ms, estimated = estimated_ms(cell, stage), True
        total += (steps + tests) * ms / 1e3 + STAGE_SECONDS
    return Cost(total, estimated)


def price_basis(cells: Sequence[Cell]) -> list[str]:
    """What the prices of cells rest on, in words.

    Args:
        cells: Cells that were priced by `gpu_cost`.

    Returns:
        Lines without an end of line.
    """
    return [*_steps_basis(cells), *_time_basis(cells)]


def _steps_basis(cells: Sequence[Cell]) -> list[str]:
    """What the numbers of steps rest on."""
    known = any(cell.steps_a_stage == measured_steps(cell.config) for cell in cells)
    lines = [
        "steps: how many in all is an assumption of the study, those of a recipe at least; a cell "
        "that fails a stage takes fewer, none more than its cap"
        + ("; for words and parity the mean of finished cells (results/study.parquet)" * known)
    ]
    if any(cell.shares for cell in cells):
        lines.append(
            "steps by stage of state-based recall: as two finished cells of GDN+Window took them "
            "(results/study.parquet), assumed of every mixer and setting"
        )
    if not all(cell.shares for cell in cells):
        lines.append("steps by stage of other tasks: equally many on each, an assumption")
    return lines


def _time_basis(cells: Sequence[Cell]) -> list[str]:
    """What the milliseconds of a step rest on."""
    lines = []
    others = [cell for cell in cells if finished_ms(cell) is None]
    if len(others) < len(cells):
        lines.append(
            "milliseconds a step of word problems and parity on one block: of an H200, by mixer, "
            "loops and loop state, what finished cells took (results/study.parquet), four at a "
            "time, evaluations, tests and starts with them, the same at every length"
        )
    if others:
        guessed = any(gpu_cost(cell).estimated for cell in others)
        lines.append(
            f"milliseconds a step{' of other cells' * bool(lines)}: of an H200 with three or four "
            "cells at once, evaluations with them (results/study-throughput-h200.json)"
            + ("; where estimated, by launches and products" * guessed)
        )
    return lines


def _along(points: Sequence[tuple[float, float]], x: float) -> float:
    """A line through points in order of their first number: flat below, proportional above."""
    if x <= points[0][0]:
        return points[0][1]
    for (left, low), (right, high) in pairwise(points):
        if x <= right:
            return low + (high - low) * (x - left) / (right - left)
    return points[-1][1] * x / points[-1][0]
