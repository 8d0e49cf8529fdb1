"""Cells of the study with two steps, on small models: everything else is the cell's."""

from pathlib import Path
from typing import Any

from lt2theory.experiments.language.carry import Materials
from lt2theory.experiments.language.cells import LanguageCell
from lt2theory.linearize.evaluation import EvaluationConfig
from lt2theory.models import LoopedConfig
from lt2theory.training.lm import Execution, LmConfig
from lt2theory.training.text import Corpus, CorpusConfig, prepare
from tests.experiments.linearization.cut import write_text

STEPS = 2
LAYERS = 5
"""As many as the usual cycle has; longer patterns keep their depth."""


def make_corpus(folder: Path) -> Path:
    """A corpus of a hundred short documents, a fifth of them in either held-out split."""
    if not folder.exists():
        text = write_text(folder.parent / f"{folder.name}-text")
        prepare(CorpusConfig(sources=(str(text),), eval_share=0.2, test_share=0.2), folder)
    return folder


def make_materials(corpus: Path, root: Path, **execution: Any) -> Materials:
    """What a session on a CPU needs, with a checkpoint a step."""
    how = Execution(**{"checkpoint_every": 1, **execution})
    return Materials(root, Corpus(make_corpus(corpus)), how)


def cut(cell: LanguageCell, *, steps: int = STEPS) -> LanguageCell:
    """The cell in few steps, 16 channels wide and five layers deep."""
    model = cell.config.model
    small: dict[str, Any] = {"width": 16, "num_heads": 1, "ffn_width": 8, "init_std": 0.2}
    for name in ("linear_head_dim", "linear_value_dim"):
        if getattr(model, name) is not None:
            small[name] = 8
    if "*12" not in model.pattern:
        small["num_layers"] = LAYERS
    run: dict[str, Any] = cell.config.model_dump() | {
        "model": LoopedConfig.model_validate(model.model_dump() | small),
        "steps": steps,
        "batch_size": 2,
        "sequence_length": 33,
        "dtype": "float32",
        "log_every": 1,
    }
    run["stability"] = run["stability"] | {"measure_every": 1, "measure_windows": 1}
    measured = {"length": 40, "documents": 3, "speed_lengths": (16, 24), "speed_steps": 2}
    return LanguageCell(
        arm=cell.arm,
        study=cell.study,
        block=cell.block,
        config=LmConfig.model_validate(run),
        evaluation=EvaluationConfig.model_validate(cell.evaluation.model_dump() | measured),
        priority=cell.priority,
        exploratory=cell.exploratory,
    )
