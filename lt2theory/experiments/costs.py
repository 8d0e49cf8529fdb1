"""How long a cell takes on a GPU, from a table of measured steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lt2theory.experiments.cells import Cell

AT_ONCE = 4
"""Cells that shared the GPU in the measurements, and do so where nothing else is asked for."""


@dataclass(frozen=True)
class Measured:
    """A training step on one H200 with `AT_ONCE` cells of the kind at once, batches and all.

    Attributes:
        mixers: Names of the mixers in the pattern, sorted.
        loop_state: `rescan` or `accumulate`.
        block_passes: Blocks times loops.
        flops: `lt2theory.models.flops.step_flops` of the step.
        ms: Milliseconds of the GPU's time: those on the clock divided by the cells at once.
    """

    mixers: tuple[str, ...]
    loop_state: str
    block_passes: int
    flops: float
    ms: float


MEASURED: tuple[Measured, ...] = (
    Measured(("gdn",), "rescan", 4, 4.545e10, 2.04),
    Measured(("gdn",), "rescan", 16, 4.256e11, 12.07),
    Measured(("gdn",), "rescan", 16, 3.024e12, 50.78),
)
"""From results/study-throughput-h200.json. An evaluation that still had to compile lies in the
counted seconds, so that real steps are shorter."""


def step_ms(cell: Cell, stage: int, measured: Sequence[Measured] | None = None) -> float | None:
    """What a training step costs of the GPU's time.

    Steps of the same mixers and loop state serve, whatever their sizes: milliseconds a pass through
    a block are linear in its products between two measurements, proportional to them above, and
    those of the smallest below, where the launches count.

    Args:
        cell: A cell.
        stage: One of its stages.
        measured: The table; `MEASURED` if None.

    Returns:
        Milliseconds; None if nothing of the kind was measured.
    """
    model = cell.resolved.model
    mixers = tuple(sorted({spec.mixer for loop in model.loops for spec in loop}))
    table = MEASURED if measured is None else measured
    kind = [row for row in table if (row.mixers, row.loop_state) == (mixers, model.loop_state)]
    if not kind:
        return None
    passes = model.num_layers * model.num_loops
    points = sorted((row.flops / row.block_passes, row.ms / row.block_passes) for row in kind)
    return passes * _along(points, cell.step_flops(stage) / passes)


def gpu_seconds(cell: Cell, *, measured: Sequence[Measured] | None = None) -> float | None:
    """What a cell is expected to cost of the GPU's time; evaluations are part of the measurements.

    Args:
        cell: A cell.
        measured: The table; `MEASURED` if None.

    Returns:
        Seconds, if every stage takes the steps that are expected; None if nothing of the kind was
        measured.
    """
    total = 0.0
    for stage in cell.resolved.stages:
        ms = step_ms(cell, stage, measured)
        if ms is None:
            return None
        total += cell.steps_a_stage * ms / 1e3
    return total


def _along(points: Sequence[tuple[float, float]], x: float) -> float:
    """A line through points in order of their first number: flat below, proportional above."""
    if x <= points[0][0]:
        return points[0][1]
    for (left, low), (right, high) in pairwise(points):
        if x <= right:
            return low + (high - low) * (x - left) / (right - left)
    return points[-1][1] * x / points[-1][0]
