"""A corpus of short documents, and configurations that train on it in a second."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lt2theory.models import LoopedConfig
from lt2theory.training.lm import LmConfig, LmOptimiserConfig
from lt2theory.training.text import Corpus, CorpusConfig, prepare

MakeLm = Callable[..., LmConfig]


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Sixty documents of 5 to 90 letters, some held out: windows cross their boundaries."""
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefgh "))
    texts = ["".join(rng.choice(letters, size)) for size in rng.integers(5, 90, 60)]
    folder = tmp_path_factory.mktemp("corpus")
    source = folder / "source.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    prepare(CorpusConfig(sources=(str(source),), eval_share=0.2), folder / "tokens")
    return Corpus(folder / "tokens")


@pytest.fixture(scope="session")
def make_lm() -> MakeLm:
    """A float64 hybrid with a loss on both of its loops; eight steps of six odd windows."""

    def make(**changes: Any) -> LmConfig:
        model: dict[str, Any] = {
            "vocab_size": 261,
            "width": 16,
            "num_layers": 2,
            "num_loops": 2,
            "num_heads": 2,
            "pattern": "gdn,full",
            "ffn_width": 24,
            "loop_loss": "mean",
            "backend": "chunked",
        }
        fields: dict[str, Any] = {
            "model": LoopedConfig(**model | changes.pop("model", {})),
            "optimiser": LmOptimiserConfig(learning_rate=1e-2, warmup_steps=2),
            "steps": 8,
            "batch_size": 6,
            "sequence_length": 33,
            "dtype": "float64",
            "log_every": 1,
            "evaluate_every": 4,
        }
        return LmConfig(**fields | changes)

    return make


@pytest.fixture(scope="session")
def lines() -> Callable[[Path], list[dict[str, Any]]]:
    """The records of a run's metrics."""

    def read(folder: Path) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]

    return read
