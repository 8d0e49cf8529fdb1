"""What the analysers say about a language model trained on text."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from lt2theory.experiments.analysis_tables import measure
from lt2theory.models import LoopedModel
from lt2theory.runs import RunFolder
from lt2theory.runs.atomic import read_json
from lt2theory.training.lm import LmConfig, load_lm
from lt2theory.training.lm.session import CORPUS
from lt2theory.training.text import Corpus, TextBatches
from tasks import Batch

LENGTH = 256
"""Most tokens of a window: analyses look at all pairs of them."""


def measure_text(
    run: RunFolder, *, data: Path | None, windows: int, seed: int
) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """Measure a run's model on held-out windows, in float64, each as one unbroken stream.

    Args:
        run: The run.
        data: Folder of its corpus; where it was in training if None.
        windows: Windows of the eval split, or of the training split where that is too short.
        seed: Which windows, and the seed of random probes.

    Returns:
        Tables as `lt2theory.experiments.analysis_tables.measure` gives them, and the setting.

    Raises:
        ValueError: The run has no checkpoint, or its corpus is not there.
    """
    model, config = load_lm(run.path)
    batch = _held_out(_corpus(run, data), config, windows, seed)
    tables = measure(model.double(), None, batch, seed=seed)
    return tables, _facts(model, config, batch) | {"seed": seed}


def _corpus(run: RunFolder, data: Path | None) -> Corpus:
    """Return the corpus of the run, or the one that is named.

    Raises:
        ValueError: It is not where it was in training.
    """
    folder = Path(str(read_json(run.path / CORPUS).get("folder"))) if data is None else data
    if data is None and not folder.is_dir():
        raise ValueError(f"data: the corpus is no longer at {folder}; give its folder")
    return Corpus(folder)


def _held_out(corpus: Corpus, config: LmConfig, windows: int, seed: int) -> Batch:
    length = min(LENGTH, config.sequence_length)
    stream = corpus.stream("eval")
    if stream.num_tokens < length:
        stream = corpus.stream("train")
    batches = TextBatches(stream, length=length, batch_size=windows, seed=seed)
    inputs, targets, _ = batches.batch(0)
    return Batch(inputs, targets.astype(np.int64), targets >= 0)


def _facts(model: LoopedModel, config: LmConfig, batch: Batch) -> dict[str, Any]:
    """The setting, as `lt2theory.experiments.analyze.describe` gives it for a task."""
    size, length = batch.inputs.shape
    return {
        "label": config.label,
        "task": "text",
        "knobs": {},
        "stage": None,
        "instances": size,
        "length": length,
        "pattern": model.config.pattern,
        "num_layers": model.config.num_layers,
        "num_loops": model.config.num_loops,
        "loop_state": model.config.loop_state,
        "output_gate": model.config.output_gate,
        "failed_stage": None,
        "failure": "",
    }
