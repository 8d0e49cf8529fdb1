"""Selectors side by side: the trained one, those that need no training, and fixed placements."""

import contextlib
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from lt2theory.linearize.alike import check_alike
from lt2theory.linearize.checks import check_selection
from lt2theory.linearize.choice import (
    bookend_layers,
    highest_layers,
    score_table,
    uniform_layers,
)
from lt2theory.linearize.recipe import Recipe
from lt2theory.linearize.recipe_b import recipe_b
from lt2theory.linearize.selection import (
    RUNS,
    SelectionConfig,
    final_scores,
    restoration_runs,
)
from lt2theory.linearize.selectors import layer_scores
from lt2theory.linearize.sources import Sources, weights_fingerprint
from lt2theory.linearize.swaps import replacement_scores, restoration_scores
from lt2theory.linearize.views import teacher_views
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.runs import Progress, config_hash, write_json, write_table
from lt2theory.runs.prepare import remove_tree
from lt2theory.training.lm import Execution
from lt2theory.training.lm.config import corpus_hash
from lt2theory.training.lm.session import check_corpus, open_session, shared_folder
from lt2theory.training.lm.step import lm_runtime
from lt2theory.training.text import Corpus, TextBatches

KIND = "selection"
TRAINED = "trained"
"""Name of the selector by trained divergence."""
SCORES, COURSE, RECIPE = "scores.parquet", "course.parquet", "recipe.json"


def select_layers(
    student: LoopedModel,
    config: SelectionConfig,
    execution: Execution,
    sources: Sources,
    *,
    folder: Path,
    overwrite: bool = False,
    progress: Progress | None = None,
    seconds: float | None = None,
) -> dict[str, Any]:
    """Choose the layers that keep softmax, or go on where that stopped.

    Args:
        student: The all-linear student after its alignment.
        config: How layers are chosen.
        execution: How runs are carried out.
        sources: The teacher and the text.
        folder: Gets scores.parquet (a row a selector and layer), course.parquet (divergences of
            every run by step), recipe.json (recipe B with the chosen layers) and summary.json.
        overwrite: Start afresh, whatever selection the folder holds.
        progress: Told how far each run is.
        seconds: Time after which it stops as if a signal had come; None for no end.

    Returns:
        The summary: the layers that each selector chooses, and how far seeds agree.

    Raises:
        ValueError: The student is no student of this teacher, or as the runs.
        DiskFullError: The disk is full; the same call goes on.
        Interrupted: A signal came, or time is over; likewise.
    """
    teacher = sources.teacher.model
    _check(student, teacher)
    count = config.count(student.config.num_layers)
    header = {
        "selection": config.model_dump(mode="json"),
        "student": weights_fingerprint(student),
        "teacher": weights_fingerprint(teacher),
        "corpus": corpus_hash(sources.corpus),
    }
    identity = {"label": f"select-{sources.teacher.name}", "seed": 0, "task": "text"}
    with contextlib.ExitStack() as stack:
        session = stack.enter_context(open_session(execution, seconds=seconds))
        check_selection(
            config,
            student.config,
            teacher,
            sources.corpus,
            session.execution,
            session.ranks.size,
        )
        run = stack.enter_context(
            shared_folder(session.ranks, folder, KIND, header, identity, overwrite=overwrite)
        )
        done = session.ranks.from_first(run.summary() if run and run.status == "done" else None)
        if done is not None:
            return dict(done)
        check_corpus(session.ranks, sources.corpus)
        if run is not None and overwrite:
            _forget_runs(folder)
        dtype = torch.float64 if config.dtype == "float64" else torch.float32
        for model in (student, teacher):
            model.to(device=session.ranks.device, dtype=dtype)
        course = restoration_runs(
            student, config, sources, session, folder=folder, progress=progress
        )
        with lm_runtime(session.ranks.device, config.dtype).autocast():
            scores = {TRAINED: _by_seed(final_scores(course))}
            scores |= untrained_scores(teacher, student, sources.corpus, config)
        summary = _summary(scores, count, student.config.num_layers)
        summary["config_hash"] = config_hash(header)
        if run is not None:
            write_table(folder / COURSE, course)
            write_table(folder / SCORES, scores_table(scores, count))
            recipe = _recipe(student, teacher, summary["chosen"][TRAINED], config.dtype)
            write_json(folder / RECIPE, recipe.to_json())
            run.write_summary(summary)
        return summary


def _forget_runs(folder: Path) -> None:
    if (folder / RUNS).exists():
        remove_tree(folder / RUNS)


def untrained_scores(
    teacher: LoopedModel, student: LoopedModel, corpus: Corpus, config: SelectionConfig
) -> dict[str, Float[Tensor, "seeds layers"]]:
    """Scores that need no training, on held-out text.

    Args:
        teacher: The teacher.
        student: The student.
        corpus: The text; each seed reads other windows.
        config: `seeds`, `probe_windows` and `probe_length`.

    Returns:
        By name, a row a seed: those of `layer_scores`, `replacement` and `restoration`.

    Raises:
        ValueError: The eval split is shorter than a window.
    """
    rows: dict[str, list[Tensor]] = {}
    device = teacher.embedding.weight.device
    for seed in range(config.seeds):
        windows = TextBatches(
            corpus.stream("eval"),
            length=config.probe_length,
            batch_size=config.probe_windows,
            seed=seed,
        )
        tokens = torch.from_numpy(windows.batch(0).inputs).to(device)
        found = layer_scores(teacher_views(teacher, tokens))
        found["replacement"] = replacement_scores(teacher, student, tokens)
        found["restoration"] = restoration_scores(teacher, student, tokens)
        for name, one in found.items():
            rows.setdefault(name, []).append(one.cpu().double())
    return {name: torch.stack(found) for name, found in rows.items()}


def scores_table(scores: dict[str, Float[Tensor, "seeds layers"]], count: int) -> pd.DataFrame:
    """All selectors below one another.

    Args:
        scores: By selector, a row a seed.
        count: Layers that are chosen.

    Returns:
        What `score_table` gives for each, after a column `selector`.
    """
    tables = [score_table(one, count).assign(selector=name) for name, one in scores.items()]
    table = pd.concat(tables, ignore_index=True)
    return table[["selector", *(name for name in table if name != "selector")]]


def _summary(
    scores: dict[str, Float[Tensor, "seeds layers"]], count: int, num_layers: int
) -> dict[str, Any]:
    chosen = {name: list(highest_layers(one.mean(0), count)) for name, one in scores.items()}
    by_seed = {
        name: [list(highest_layers(row, count)) for row in one] for name, one in scores.items()
    }
    fixed = {"uniform": list(uniform_layers(num_layers, count))}
    if count > 1:
        fixed["bookend"] = list(bookend_layers(num_layers, count))
    return {"count": count, "chosen": chosen | fixed, "chosen_by_seed": by_seed}


def _recipe(student: LoopedModel, teacher: LoopedModel, keep: list[int], dtype: str) -> Recipe:
    """Recipe B for a student of the same config, with the chosen layers."""
    own, theirs = (
        {name: getattr(config, name) for name in LoopedConfig.model_fields}
        for config in (student.config, teacher.config)
    )
    changes = {k: v for k, v in own.items() if v != theirs[k] and k != "pattern"}
    return recipe_b(student.config.pattern, keep, changes=changes, dtype=dtype)


def _by_seed(scores: pd.DataFrame) -> Float[Tensor, "seeds layers"]:
    """Scores as a tensor."""
    table = scores.pivot(index="seed", columns="layer", values="score")
    return torch.from_numpy(table.sort_index().sort_index(axis=1).to_numpy(dtype=float).copy())


def _check(student: LoopedModel, teacher: LoopedModel) -> None:
    """Refuse a student with softmax layers already, or of another teacher.

    Raises:
        ValueError: It is one.
    """
    fields = ("vocab_size", "width", "num_layers", "num_loops")
    check_alike(student.config, teacher.config, *fields)
    for own, theirs in zip(student.config.loops, teacher.config.loops, strict=True):
        same = [i for i, pair in enumerate(zip(own, theirs, strict=True)) if pair[0] == pair[1]]
        if same:
            raise ValueError(
                f"student: layer {same[0]} has the teacher's mixer already (must be all-linear)"
            )
