"""Carrying out one cell: trained by `lt2 train`'s trainer, measured, reduced to its rows."""

import gc
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from lt2theory.experiments.cell_folder import carry_out_cell
from lt2theory.experiments.language.cells import KIND, LanguageCell
from lt2theory.experiments.language.measured import (
    gate_rows,
    held_out_rows,
    speed_rows_of,
    training_rows,
)
from lt2theory.runs import Progress, RunFolder
from lt2theory.runs.layout import CHECKPOINTS
from lt2theory.training.lm import Execution, load_lm, resolve
from lt2theory.training.lm.config import corpus_hash
from lt2theory.training.lm.session import open_session, train_in
from lt2theory.training.lm.step import lm_runtime
from lt2theory.training.text import Corpus

TRAINED = "train"
"""Folder of what trains, in that of the cell: a run of `lt2 train`."""


@dataclass
class Materials:
    """What the cells of a session share.

    Attributes:
        root: The study's folder.
        corpus: The text, in bytes.
        execution: How cells are trained.
        progress: Told how far a cell is.
    """

    root: Path
    corpus: Corpus
    execution: Execution = field(default_factory=Execution)
    progress: Progress | None = None


def run_cell(
    cell: LanguageCell, folder: Path, materials: Materials, *, seconds: float | None = None
) -> None:
    """Carry out a cell, or go on where that stopped.

    Args:
        cell: The cell.
        folder: Folder of its run.
        materials: Text and execution.
        seconds: Time after which training stops as if a signal had come; None for no end. A
            measurement that has begun is ended.

    Raises:
        ValueError: Something does not fit, or the folder is of another text.
        DiskFullError: The disk is full; the same call goes on.
        Interrupted: A signal came, or time is over; likewise.
    """
    carry_out_cell(
        folder,
        materials.execution,
        kind=KIND,
        config=cell.to_json() | {"reads": {"corpus": corpus_hash(materials.corpus)}},
        identity=cell.run().identity,
        work=lambda run: _worked(cell, run, materials, seconds),
        large=_weights,
    )


def _worked(
    cell: LanguageCell, run: RunFolder, materials: Materials, seconds: float | None
) -> dict[str, Any]:
    own, corpus = run.path / TRAINED, materials.corpus
    with open_session(materials.execution, seconds=seconds) as session:
        summary = train_in(
            session,
            resolve(cell.config, corpus),
            corpus,
            folder=own,
            progress=materials.progress,
        )
    _release(materials)
    rows = training_rows(own, summary, layers=cell.config.model.num_layers)
    facts = {"outcome": summary.status, "steps": summary.steps, "loss": summary.loss}
    if summary.status == "finished":
        device = torch.device(materials.execution.device)
        runtime = lm_runtime(device, cell.config.dtype)
        model = load_lm(own, device=device)[0].eval()
        rows += held_out_rows(model, corpus, runtime, cell)
        rows += gate_rows(model)
        rows += speed_rows_of(model, runtime, cell)
        del model
        _release(materials)
    return {"rows": rows, "facts": facts}


def _release(materials: Materials) -> None:
    """Give the memory of what has ended back to what comes."""
    gc.collect()
    if materials.execution.device == "cuda":
        torch.cuda.empty_cache()


def _weights(folder: Path) -> Iterator[Path]:
    """What nothing reads any more."""
    yield folder / TRAINED / CHECKPOINTS
