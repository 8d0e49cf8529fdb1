"""The folder of a cell that trains in folders inside it, and is reduced to its rows.

What trains resumes to the same bytes; the numbers are in rows.json, written before anything large
is deleted, and summary.json is written last.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from lt2theory.runs import RunFolder, read_json, write_json
from lt2theory.runs.environment import capture, record
from lt2theory.runs.prepare import remove_tree
from lt2theory.training.lm import Execution
from lt2theory.training.lm.step import lm_runtime

ROWS = "rows.json"


def carry_out_cell(
    folder: Path,
    execution: Execution,
    *,
    kind: str,
    config: Mapping[str, Any],
    identity: Mapping[str, Any],
    work: Callable[[RunFolder], dict[str, Any]],
    large: Callable[[Path], Iterable[Path]],
) -> None:
    """Carry out a cell, or go on where that stopped.

    Args:
        folder: Folder of its run.
        execution: How what trains is carried out.
        kind: Kind of the run.
        config: All that decides its numbers, texts with them.
        identity: What names it in tables.
        work: Trains and measures in the folder, and gives `rows` and `facts`.
        large: The folders to be deleted once the numbers are written.

    Raises:
        ValueError: Something does not fit, or the folder is another run's.
        DiskFullError: The disk is full; the same call goes on.
        Interrupted: A signal came, or time is over; likewise.
    """
    with RunFolder.writing(folder, kind=kind, config=config, identity=identity) as run:
        if run.status == "done":
            return
        runtime = lm_runtime(torch.device(execution.device), "float32")
        threads = execution.threads or torch.get_num_threads()
        record(folder, capture(threads=threads, device=runtime.device_name), step=0)
        if not (folder / ROWS).is_file():
            write_json(folder / ROWS, work(run))
        for place in large(folder):
            if place.is_dir():
                remove_tree(place)
        run.write_summary(dict(read_json(folder / ROWS)["facts"]))
