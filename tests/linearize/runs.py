"""What the tests of whole linearizations share: a small teacher, its text, and what a run left."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load_file

from lt2theory.linearize.recipe import Recipe
from lt2theory.linearize.sources import Sources
from lt2theory.linearize.teachers import Teacher, frozen
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.runs import RunFolder
from lt2theory.training.text import Corpus, CorpusConfig, prepare

TEACHER: dict[str, Any] = {
    "vocab_size": 258,
    "width": 24,
    "num_layers": 2,
    "pattern": "full",
    "num_heads": 4,
    "num_kv_heads": 2,
    "head_dim": 6,
    "ffn_width": 40,
    "positions": "rope",
    "loop_gate": False,
    "init_std": 0.2,
    "backend": "chunked",
}


def make_sources(folder: Path) -> Sources:
    """A random Llama-like teacher, a corpus of bytes in documents of odd lengths, conversations."""
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefgh "))
    texts = ["".join(rng.choice(letters, size)) for size in rng.integers(5, 90, 60)]
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "source.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    chat = folder / "chat.jsonl"
    turns = [
        [{"role": "user", "content": text[:7]}, {"role": "assistant", "content": text[7:20]}]
        for text in texts
    ]
    chat.write_text("".join(json.dumps({"messages": messages}) + "\n" for messages in turns))
    prepare(CorpusConfig(sources=(str(source),), eval_share=0.2), folder / "tokens")
    return Sources(make_teacher(), Corpus(folder / "tokens"), chat)


def make_teacher() -> Teacher:
    """A random Llama-like teacher of two layers."""
    return frozen(LoopedModel(LoopedConfig(**TEACHER)), "tiny")


def make_recipe(**changes: Any) -> Recipe:
    """All kinds of stages of recipe A, three to five steps each, and a layer that is restored."""
    stage: dict[str, Any] = {
        "batch_size": 4,
        "sequence_length": 33,
        "log_every": 1,
        "optimiser": {"learning_rate": 1e-2, "warmup_steps": 1},
    }
    stages = [
        {"name": "attention", "objective": {"kind": "alignment"}, "trained": "mixers", "steps": 3},
        {
            "name": "hidden",
            "objective": {"kind": "alignment", "target": "block"},
            "trained": "blocks",
            "steps": 4,
        },
        {
            "name": "distillation",
            "objective": {"kind": "distillation", "chunk": 50},
            "restore": [1],
            "other_rate": 0.5,
            "steps": 5,
        },
        {
            "name": "instruction",
            "objective": {"kind": "language"},
            "data": "chat",
            "steps": 3,
        },
        {
            "name": "instruction-distillation",
            "objective": {"kind": "distillation"},
            "data": "chat",
            "steps": 3,
        },
    ]
    recipe: dict[str, Any] = {
        "name": "test",
        "pattern": "gdn",
        "changes": {"linear_rotation": "off"},
        "calibration_windows": 2,
        "calibration_length": 40,
        "recovery_windows": 2,
        "recovery_length": 35,
        "stages": [stage | one for one in stages],
    }
    return Recipe.model_validate(recipe | changes)


def different(one: Path, other: Path) -> list[str]:
    """Names of what two linearizations left that is not the same bytes."""
    found, wanted = _kept(one), _kept(other)
    return [name for name in found | wanted if found.get(name) != wanted.get(name)]


def _kept(folder: Path) -> dict[str, bytes]:
    """Metrics, and weights and moments of the last checkpoint, of all stages, as bytes."""
    metrics = folder / "metrics.jsonl"
    found = {"metrics": metrics.read_bytes() if metrics.exists() else b""}
    for stage in sorted((folder / "stages").iterdir()):
        found[f"{stage.name} metrics"] = (stage / "metrics.jsonl").read_bytes()
        for path in RunFolder.open(stage).checkpoints()[0].glob("*.safetensors"):
            for name, tensor in load_file(path).items():
                found[f"{stage.name} {name}"] = tensor.numpy().tobytes()
    return found
