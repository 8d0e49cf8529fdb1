"""How long a cell takes of a GPU: by what finished cells took of one, all that goes with a step."""

from collections.abc import Sequence
from dataclasses import dataclass

from lt2theory.experiments.cells import Cell
from lt2theory.experiments.costs_finished import (
    RECALLED,
    STEP_MS,
    TFLOP_MS,
    arm_of,
    one_block_ms,
)
from lt2theory.experiments.study_steps import measured_steps

AT_ONCE = 4
"""Cells that share the GPU where nothing else is asked for."""


@dataclass(frozen=True)
class Cost:
    """What a cell is expected to cost of the GPU's time.

    Attributes:
        seconds: If every stage takes the steps that are expected.
        estimated: Whether no cell of its arm was measured.
    """

    seconds: float
    estimated: bool


def gpu_cost(cell: Cell) -> Cost:
    """What a cell is expected to cost of an H200's time, evaluations, tests and starts with it.

    Args:
        cell: A cell. One of one block is priced by what a step of its arm took, a larger one by
            steps and products as finished cells of state-based recall took them.

    Returns:
        The seconds, and whether they are an estimate.
    """
    steps = cell.steps()
    if cell.resolved.model.num_layers == 1:
        ms, estimated = one_block_ms(cell)
        return Cost(steps * ms / 1e3, estimated)
    ms = STEP_MS * steps + TFLOP_MS * cell.flops() / 1e12
    return Cost(ms / 1e3, arm_of(cell) not in RECALLED)


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
    small = sum(cell.resolved.model.num_layers == 1 for cell in cells)
    if small:
        lines.append(
            "milliseconds a step of one block: of an H200, by task, mixer, loops and loop state, "
            "what finished cells of word problems and parity took (results/study.parquet), four "
            "at a time, evaluations, tests and starts with them, the same at every length; where "
            "estimated, the mean over arms of as many loops"
        )
    if small < len(cells):
        lines.append(
            "milliseconds a step of more blocks: of an H200, by steps and products as finished "
            "cells of state-based recall took them (results/study.parquet), three to six at a "
            "time, evaluations, tests and starts with them; single cells took 0.6 to 2 times "
            "this; where estimated, the same is assumed of other tasks, mixers and loops"
        )
    return lines
