"""Carrying out the cells of the study: what is to be done, and a session of it."""

from pathlib import Path
from typing import Any

from lt2theory.experiments.language.carry import Materials, run_cell
from lt2theory.experiments.language.cells import KIND, LanguageCells
from lt2theory.experiments.language.minutes import PRICES
from lt2theory.experiments.language.table import TABLE, language_table
from lt2theory.experiments.serial import (
    SerialSession,
    carry_out_serially,
    serial_jobs,
    serial_plan,
)
from lt2theory.runs import write_table
from lt2theory.training import Account


def language_plan(cells: LanguageCells, root: Path) -> list[dict[str, Any]]:
    """What is to be done, and what it is expected to cost.

    Args:
        cells: The cells.
        root: The study's folder, which need not exist.

    Returns:
        As `lt2theory.experiments.serial.serial_plan`, with `parameters`.
    """
    rows = serial_plan(cells, root, PRICES)
    return [
        row | {"parameters": cell.columns()["parameters"]}
        for row, cell in zip(rows, cells, strict=True)
    ]


def carry_out_language(
    cells: LanguageCells, wanted: LanguageCells, session: SerialSession, materials: Materials
) -> dict[str, Account]:
    """Carry out cells for a session, and write the study's table.

    Args:
        cells: All cells of the study.
        wanted: Those to be carried out, in order.
        session: How long.
        materials: Text and execution; its `root` is the study's folder.

    Returns:
        How every cell ended that was not done before, by name.

    Raises:
        ValueError: The folder holds a study with other cells, or the device is not there.
        DiskFullError: The disk is full; the same call goes on.
        Interrupted: A signal came; the same call goes on.
    """
    root = materials.root
    jobs = serial_jobs(cells, wanted, root, materials.execution.device, PRICES)
    try:
        return carry_out_serially(
            cells,
            jobs,
            root,
            session,
            kind=KIND,
            work=lambda job, seconds: run_cell(job.config, job.folder, materials, seconds=seconds),
        )
    finally:
        write_table(root / TABLE, language_table(cells, root))
