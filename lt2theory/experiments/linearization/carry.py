"""Carrying out one cell: trained, measured, and reduced to its rows.

A cell's folder is a run of kind `linearize-cell`. What trains in it lies in folders of its own,
which resume to the same bytes; its numbers are in rows.json, written before anything large is
deleted, and its summary.json is written last. A teacher keeps its weights, in bfloat16: that is the
teacher which the others learn from, on this machine or another.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from lt2theory.experiments.cell_folder import carry_out_cell
from lt2theory.experiments.linearization.cells import (
    KIND,
    STAGE_WITH_CHOICE,
    LinearCell,
    SelectionWork,
    StudentWork,
    TeacherWork,
)
from lt2theory.experiments.linearization.materials import Materials
from lt2theory.experiments.linearization.measured import (
    Rows,
    evaluation_rows,
    selection_rows,
    stage_rows,
    teacher_rows,
)
from lt2theory.linearize.engine import run_recipe
from lt2theory.linearize.evaluation import Pair, evaluate_pair
from lt2theory.linearize.recipe import Recipe
from lt2theory.linearize.results import START, LinearizeSummary, load_student
from lt2theory.linearize.selectors_compared import TRAINED, select_layers
from lt2theory.linearize.sources import Sources
from lt2theory.models import LoopedModel
from lt2theory.runs import RunFolder
from lt2theory.runs.layout import CHECKPOINTS
from lt2theory.training.checkpoint import MODEL, model_tensors
from lt2theory.training.lm import load_lm, resolve
from lt2theory.training.lm.session import open_session, train_in
from lt2theory.training.lm.step import lm_runtime

INNER = ("teacher", "student", "aligned", "selection")
"""Folders of what trains."""
EVALUATION = "evaluation"


def run_cell(
    cell: LinearCell, folder: Path, materials: Materials, *, seconds: float | None = None
) -> None:
    """Carry out a cell, or go on where that stopped.

    Args:
        cell: The cell; what it needs is done.
        folder: Folder of its run.
        materials: Texts and teachers.
        seconds: Time after which training stops as if a signal had come; None for no end. A
            measurement that has begun is ended.

    Raises:
        ValueError: Something does not fit, or the folder is of another text or teacher.
        DiskFullError: The disk is full; the same call goes on.
        Interrupted: A signal came, or time is over; likewise.
    """
    carry_out_cell(
        folder,
        materials.execution,
        kind=KIND,
        config=cell.to_json() | {"reads": materials.about(cell)},
        identity=cell.run().identity,
        work=lambda run: _worked(cell, run, materials, seconds),
        large=_weights,
    )


def _worked(
    cell: LinearCell, run: RunFolder, materials: Materials, seconds: float | None
) -> dict[str, Any]:
    """Rows and facts of a cell."""
    if isinstance(cell.work, TeacherWork):
        return _teach(cell, cell.work, run, materials, seconds)
    if isinstance(cell.work, StudentWork):
        return _learn(cell, cell.work, run, materials, seconds)
    return _select(cell, cell.work, run, materials, seconds)


def _teach(
    cell: LinearCell, work: TeacherWork, run: RunFolder, materials: Materials, seconds: float | None
) -> dict[str, Any]:
    corpus, own = materials.corpus(cell), run.path / "teacher"
    with open_session(materials.execution, seconds=seconds) as session:
        summary = train_in(
            session,
            resolve(work.config, corpus),
            corpus,
            folder=own,
            progress=materials.progress,
        )
    if summary.status != "finished":
        raise ValueError(f"learning_rate: {work.config.optimiser.learning_rate} let {cell.name} "
                         "diverge")  # fmt: skip
    if not run.checkpoints():
        tensors = model_tensors(load_lm(own)[0])
        small = {name: x.to(torch.bfloat16).contiguous() for name, x in tensors.items()}
        run.save_checkpoint(summary.steps, {MODEL: save(small)})
    model = load_lm(own)[0]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.to(torch.bfloat16))
    rows = _measured(cell, model, model, run, materials, dtype=work.config.dtype)
    found = teacher_rows(rows, corpus) + stage_rows(own, "training", 0)
    facts = {"parameters": summary.parameters, "pattern": work.config.model.pattern}
    return {"rows": found, "facts": facts | {"tokens_read": summary.tokens}}


def _learn(
    cell: LinearCell, work: StudentWork, run: RunFolder, materials: Materials, seconds: float | None
) -> dict[str, Any]:
    recipe = work.recipe
    if cell.selection is not None:
        chosen = RunFolder.open(materials.root / cell.selection.run().folder).summary()["chosen"]
        recipe = with_layers(recipe, chosen)
    summary = _run(recipe, cell, run.path / "student", materials, seconds)
    teacher = materials.teacher(cell).model
    student = load_student(run.path / "student")
    rows: Rows = []
    if summary.status == "finished":
        rows = _measured(cell, teacher, student, run, materials, dtype=recipe.dtype)
    rows += _recovered(run.path / "student", summary)
    facts: dict[str, Any] = {"parameters": summary.parameters, "pattern": summary.pattern}
    facts |= {"outcome": summary.status, "tokens_read": summary.tokens}
    return {"rows": rows, "facts": facts}


def _select(
    cell: LinearCell,
    work: SelectionWork,
    run: RunFolder,
    materials: Materials,
    seconds: float | None,
) -> dict[str, Any]:
    summary = _run(work.recipe, cell, run.path / "aligned", materials, seconds)
    student = load_student(run.path / "aligned").requires_grad_(True)
    found = select_layers(
        student,
        work.selection,
        materials.execution,
        Sources(materials.teacher(cell), materials.corpus(cell)),
        folder=run.path / "selection",
        progress=materials.progress,
        seconds=seconds,
    )
    rows = selection_rows(run.path / "selection", seeds=work.selection.seeds)
    rows += _recovered(run.path / "aligned", summary)
    facts = {"parameters": summary.parameters, "pattern": summary.pattern}
    return {"rows": rows, "facts": facts | {"chosen": found["chosen"][TRAINED]}}


def with_layers(recipe: Recipe, layers: list[int]) -> Recipe:
    """A recipe whose hybrid stage restores some layers.

    Args:
        recipe: Recipe B without layers.
        layers: The layers.

    Returns:
        The recipe.
    """
    told: dict[str, Any] = recipe.model_dump()
    for stage in told["stages"]:
        if stage["name"] == STAGE_WITH_CHOICE:
            stage["restore"] = sorted(layers)
    return Recipe.model_validate(told)


def _run(
    recipe: Recipe, cell: LinearCell, folder: Path, materials: Materials, seconds: float | None
) -> LinearizeSummary:
    sources = Sources(
        materials.teacher(cell), materials.corpus(cell), materials.conversations(cell)
    )
    return run_recipe(
        recipe,
        materials.execution,
        sources,
        folder=folder,
        progress=materials.progress,
        seconds=seconds,
    )


def _recovered(folder: Path, summary: LinearizeSummary) -> Rows:
    """Rows of every stage: recovery after it, its course, and how fast it went."""
    rows: Rows = []
    steps = 0
    if summary.start is not None:
        rows += _recovery("start", 0, summary.start.model_dump())
    for stage in summary.stages:
        rows += stage_rows(folder / stage.folder, stage.name, steps)
        steps += stage.run.steps
        if stage.recovery is not None:
            rows += _recovery(stage.name, steps, stage.recovery.model_dump())
    return rows


def _recovery(stage: str, step: int, found: Mapping[str, float]) -> Rows:
    place = {"part": "stage", "model": "pair", "kind": stage, "step": step}
    return [place | {"metric": metric, "value": value} for metric, value in found.items()]


def _measured(
    cell: LinearCell,
    teacher: LoopedModel,
    student: LoopedModel,
    run: RunFolder,
    materials: Materials,
    *,
    dtype: str,
) -> Rows:
    device = torch.device(materials.execution.device)
    runtime = lm_runtime(device, dtype)
    models = [model.to(device=device, dtype=torch.float32).eval() for model in (teacher, student)]
    corpus = materials.corpus(cell)
    stream = corpus.stream(cell.evaluation.split)
    pair = Pair(models[0], models[1], stream, corpus.tokenizer(), runtime)
    about = {"device": runtime.device_name, "dtype": dtype}
    return evaluation_rows(evaluate_pair(pair, cell.evaluation, run.path / EVALUATION, about=about))


def _weights(folder: Path) -> Iterator[Path]:
    """What nothing reads any more."""
    for inner in INNER:
        yield folder / inner / START
        yield folder / inner / CHECKPOINTS
        yield from (folder / inner).glob(f"stages/*/{CHECKPOINTS}")
