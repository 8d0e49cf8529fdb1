"""Carrying out the cells of a study in processes of their own: here, on a cluster, by SLURM."""

from pathlib import Path

from lt2theory.experiments.cells import Cells
from lt2theory.experiments.study_table import TABLE, study_table
from lt2theory.runs import Executor, LocalExecutor, Progress, Study, spread, write_table
from lt2theory.training import Account, Runtime
from lt2theory.training.board import State
from lt2theory.training.curriculum import KIND
from lt2theory.training.many import run_assigned
from lt2theory.training.sharing import note_session
from lt2theory.training.signals import termination_interrupts


def carry_out_by(
    executor: Executor,
    cells: Cells,
    wanted: Cells,
    root: Path,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> dict[str, Account]:
    """Carry out cells of a study by an executor, and write its table.

    Args:
        executor: Where.
        cells: All cells of the study, on their device.
        wanted: Those to be carried out, in order.
        root: The study's folder: a folder a run, the manifest, and the table `study.parquet`.
        overwrite: Replace the manifest of a study of other cells; finished runs are kept.
        progress: Told when a cell ends.

    Returns:
        How every cell ended that was not done before, by name.

    Raises:
        ValueError: The folder holds a study with other cells, or the executor is not there or
            cannot give what a cell needs.
        Interrupted: SIGTERM came; the same call goes on, as it does after Ctrl-C.
    """
    if isinstance(executor, LocalExecutor):
        for device in {cell.config.device for cell in wanted}:
            Runtime.of(device, "float32")  # refused before anything is written
    study = Study.create(root, [cell.run() for cell in cells], kind=KIND, overwrite=overwrite)
    names = {cell.run().folder: cell.name for cell in wanted}
    runs = [cell.run() for cell in wanted]
    accounts = {}
    try:
        with termination_interrupts():
            for ending in spread(study, runs, run_assigned, executor, progress=progress):
                folder, cost = root / ending.folder.name, ending.seconds * executor.share
                state: State = "failed" if ending.fault else "done"
                account = Account(state, ending.fault or "", ending.seconds, cost)
                accounts[names[folder.name]] = account
                note_session(folder, account, at_once=max(1, round(1 / executor.share)))
    finally:
        study.collect()
        write_table(root / TABLE, study_table(cells, root))
    return accounts
