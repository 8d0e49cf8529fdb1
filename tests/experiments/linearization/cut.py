"""Cells of the studies with a step a stage, on small models: everything else is the cell's."""

import json
from pathlib import Path
from typing import Any

from lt2theory.experiments.linearization.cells import (
    LinearCell,
    SelectionWork,
    StudentWork,
    TeacherWork,
)
from lt2theory.experiments.linearization.materials import Materials
from lt2theory.experiments.linearization.teachers import teacher_of
from lt2theory.linearize.evaluation import EvaluationConfig
from lt2theory.linearize.recipe import Recipe
from lt2theory.linearize.selection import SelectionConfig
from lt2theory.models import LoopedConfig
from lt2theory.training.lm import Execution, LmConfig, run_lm
from lt2theory.training.text import CorpusConfig, prepare
from tests.linearize.runs import TEACHER

WORDS = ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "kilo")
MEASURED = {
    "parts": ("recovery", "cloze", "needle", "mqar", "speed"),
    "documents": 3,
    "length": 40,
    "clozes": 3,
    "cloze_context": 40,
    "needle_kinds": ("word",),
    "needle_lengths": (256,),
    "needles": 2,
    "pairs": (4,),
    "recalls": 3,
    "speed_lengths": (16,),
    "speed_steps": 2,
}
STEP: dict[str, Any] = {"tokens": None, "steps": 1, "batch_size": 2, "sequence_length": 33}
SHORT = {"calibration_windows": 1, "calibration_length": 64, "dtype": "float32"}
SHORT |= {"recovery_windows": 2, "recovery_length": 40}


def write_text(folder: Path) -> Path:
    """Documents of sentences, some words of which come again."""
    folder.mkdir(parents=True)
    for number in range(120):
        picked = [WORDS[(number * 7 + i * i) % len(WORDS)] for i in range(40)]
        sentences = [" ".join(picked[i : i + 8]).capitalize() + "." for i in range(0, 40, 8)]
        (folder / f"{number}.txt").write_text(f"Note {number}.\n" + " \n".join(sentences) + "\n")
    return folder


def make_materials(folder: Path, root: Path, **execution: Any) -> Materials:
    """Texts, and a random teacher with grouped heads in place of the real one."""
    if not folder.exists():
        text = write_text(folder / "text")
        prepare(CorpusConfig(sources=(str(text),), eval_share=0.2), folder / "tokens")
        config = LmConfig.model_validate(
            {
                "model": LoopedConfig.model_validate(TEACHER),
                "steps": 1,
                "batch_size": 2,
                "sequence_length": 32,
                "evaluate_every": 0,
            }
        )
        run_lm(config, Execution(), data=folder / "tokens", folder=folder / "real")
    how = Execution(**{"checkpoint_every": 1, **execution})
    return Materials(root, folder / "tokens", folder / "real", execution=how)


def cut(cell: LinearCell, *, steps: int = 1) -> LinearCell:
    """The cell, and what it needs, in few steps on a small model."""
    fields: dict[str, Any] = {name: getattr(cell, name) for name in LinearCell.__dataclass_fields__}
    for place in ("teacher", "selection"):
        if fields[place] is not None:
            fields[place] = cut(fields[place])
    fields["work"] = _work(cell, steps)
    fields["evaluation"] = EvaluationConfig.model_validate(cell.evaluation.model_dump() | MEASURED)
    return LinearCell(**fields)


def _work(cell: LinearCell, steps: int) -> TeacherWork | StudentWork | SelectionWork:
    work, few = cell.work, STEP | {"steps": steps}
    if isinstance(work, TeacherWork):
        model = work.config.model
        small = {"width": 16, "num_heads": 1, "ffn_width": model.hidden_width, "init_std": 0.2}
        told = work.config.model_dump() | few | {"dtype": "float32", "evaluate_every": 0}
        model = LoopedConfig.model_validate(model.model_dump() | small)
        return TeacherWork(config=LmConfig.model_validate(told | {"model": model}))
    told = work.recipe.model_dump() | SHORT
    told["stages"] = [stage | few for stage in told["stages"]]
    for stage in told["stages"]:
        stage["sequence_length"] = 401 if stage["data"] == "chat" else 33
    if cell.is_real and told["changes"].get("ffn_width"):
        raise AssertionError("the widths of FFNs follow from our own teachers")
    recipe = Recipe.model_validate(told)
    if isinstance(work, StudentWork):
        return StudentWork(recipe=recipe)
    short = {"steps": 1, "last": 1, "seeds": 1, "batch_size": 2, "sequence_length": 33}
    short |= {"dtype": "float32", "probe_windows": 1, "probe_length": 32}
    chosen = SelectionConfig.model_validate(work.selection.model_dump() | short)
    return SelectionWork(recipe=recipe, selection=chosen)


def said(rows: list[dict[str, Any]]) -> str:
    """Rows but for times, which no two runs share."""
    return json.dumps([row for row in rows if row["part"] not in ("speed", "cost")])


__all__ = ["cut", "make_materials", "said", "teacher_of", "write_text"]
