"""Carrying out the cells of a study of linearization: what is to be done, and a session of it.

Cells run one after another (`lt2theory.experiments.serial`), and a cell waits for those that it
needs: where another process carries one of them out, it begins after.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lt2theory.experiments.linearization.carry import run_cell
from lt2theory.experiments.linearization.cells import (
    KIND,
    LinearCell,
    LinearCells,
    with_needs,
)
from lt2theory.experiments.linearization.materials import Materials
from lt2theory.experiments.linearization.minutes import PRICES
from lt2theory.experiments.linearization.table import TABLE, linear_table
from lt2theory.experiments.serial import (
    SerialSession,
    carry_out_serially,
    serial_jobs,
    serial_plan,
)
from lt2theory.experiments.study import chosen
from lt2theory.runs import run_status, write_table
from lt2theory.runs.lock import is_held
from lt2theory.training import Account, Job
from lt2theory.training.board import Turn


def chosen_cells(cells: LinearCells, patterns: Sequence[str]) -> LinearCells:
    """The cells that some pattern names, and what they need.

    Args:
        cells: The study's cells.
        patterns: As in `lt2theory.experiments.study.chosen`.

    Returns:
        Those cells, in the order in which they are carried out.

    Raises:
        ValueError: A pattern names no cell.
    """
    return with_needs(chosen(cells, patterns))


def linear_plan(cells: LinearCells, root: Path) -> list[dict[str, Any]]:
    """What is to be done, and what it is expected to cost.

    Args:
        cells: The cells.
        root: The study's folder, which need not exist.

    Returns:
        One mapping a cell: `cell`, `study`, `exploratory`, `run`, `status`, `needs`, `tokens` and
        `gpu_minutes`, corrected by what finished cells of the kind took in this folder.
    """
    rows = serial_plan(cells, root, PRICES)
    return [
        row | {"needs": [one.name for one in cell.needs]}
        for row, cell in zip(rows, cells, strict=True)
    ]


def carry_out_linear(
    cells: LinearCells, wanted: LinearCells, session: SerialSession, materials: Materials
) -> dict[str, Account]:
    """Carry out cells for a session, and write the study's table.

    Args:
        cells: All cells of the study.
        wanted: Those to be carried out, in order, with what they need.
        session: How long.
        materials: Texts and teachers; its `root` is the study's folder.

    Returns:
        How every cell ended that was not done before, by name; a cell whose teacher or selection
        is not there yet stays `waiting`.

    Raises:
        ValueError: The folder holds a study with other cells, or the device is not there.
        DiskFullError: The disk is full; the same call goes on.
        Interrupted: A signal came; the same call goes on.
    """
    root = materials.root
    jobs = serial_jobs(cells, wanted, root, materials.execution.device, PRICES)
    try:
        ends = carry_out_serially(
            cells,
            jobs,
            root,
            session,
            kind=KIND,
            work=lambda job, seconds: run_cell(job.config, job.folder, materials, seconds=seconds),
            turn=partial(_turn, root=root),
        )
    finally:
        write_table(root / TABLE, linear_table(cells, root))
    for name, end in ends.items():
        if end.state == "waiting":
            end.message = _lost(jobs[name].config, root)
    return ends


def _turn(job: Job[LinearCell], *, root: Path) -> Turn:
    """Whether a cell may begin: later, where another process works on something that it needs."""
    if not _lost(job.config, root):
        return "never" if is_held(job.folder) else "now"
    needed = with_needs(job.config.needs)
    return "later" if any(is_held(root / one.run().folder) for one in needed) else "never"


def _lost(cell: LinearCell, root: Path) -> str:
    """What a cell still needs, in words; nothing where all is there."""
    lost = [one.name for one in cell.needs if run_status(root / one.run().folder) != "done"]
    return f"needs {', '.join(lost)}" if lost else ""
