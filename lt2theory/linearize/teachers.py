"""Teachers: whatever is to be turned into a linear-time model, opened by its path."""

from dataclasses import dataclass
from pathlib import Path

import torch

from lt2theory.cards import card
from lt2theory.linearize.gguf import SUFFIX as GGUF
from lt2theory.linearize.gguf_llama import GgufSource
from lt2theory.linearize.llama import load_llama
from lt2theory.linearize.results import KIND as LINEARIZATION
from lt2theory.linearize.results import STAGES, load_student
from lt2theory.linearize.weights import CONFIG, FolderSource
from lt2theory.models import LoopedModel
from lt2theory.models.parameters import parameter_count
from lt2theory.runs import RunFolder, read_json
from lt2theory.runs.environment import last_environment
from lt2theory.runs.found import found as what_is_at
from lt2theory.training import load_model
from lt2theory.training.lm import load_lm
from lt2theory.training.lm.session import KIND as LM
from lt2theory.training.lm.session import STAGE_KIND

_RAN = {"device": "on", "source": "source revision"}
"""Facts of a run's environment that are told, each with the word before it."""


@dataclass(frozen=True)
class Teacher:
    """A frozen model to learn from.

    Attributes:
        name: What it is called in tables.
        model: The model, in evaluation mode, without gradients.
        source: Where it came from: `folder` (Hugging Face), `gguf` or `run` (ours); `memory`.
    """

    name: str
    model: LoopedModel
    source: str

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        facts = {"source": self.source, "parameters": parameter_count(self.model.config)}
        return card(f"Teacher {self.name}", facts) + self.model.config._repr_html_()


def load_teacher(
    path: Path,
    *,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str = "cpu",
    field: str = "teacher",
) -> Teacher:
    """Open a teacher.

    Args:
        path: A Hugging Face checkpoint of a Llama-like architecture or Ouro's, a GGUF file of a
            Llama, or a run of ours (of text, of a curriculum, a linearization). Nothing is
            downloaded, no code of a checkpoint runs.
        dtype: Of its weights. bfloat16 halves memory; its logits then differ in the third digit.
        device: Where it is put. On a CPU, kernels of a GPU that a run names are left to 'auto'.
        field: What the path is called in refusals.

    Returns:
        The teacher.

    Raises:
        ValueError: The path is none of these, or the model cannot be represented; the reason is
            named.
    """
    if path.is_file() and path.suffix == GGUF:
        return frozen(load_llama(GgufSource(path), dtype=dtype).to(device), path.stem, "gguf")
    if not (path / CONFIG).is_file():
        raise ValueError(
            f"{field}: {str(path)!r} is not allowed (must be a Hugging Face checkpoint, a run's "
            f"folder, or a {GGUF} file); found {what_is_at(path)}"
        )
    if "model_type" in read_json(path / CONFIG):
        model = load_llama(FolderSource(path), dtype=dtype)
        return frozen(model.to(device), path.resolve().name, "folder")
    return frozen(_load_run(path, device).to(dtype), path.resolve().name, "run")


def _load_run(path: Path, device: torch.device | str) -> LoopedModel:
    """The model of a run of ours: of `lt2 train`, of a linearization, or of a curriculum."""
    kind = RunFolder.open(path).kind
    if kind == LM:
        return load_lm(path, device=device)[0]
    if kind in (LINEARIZATION, STAGE_KIND):
        return load_student(path, device=device)
    return load_model(path, device=device)[0]


def made_by(path: Path) -> str:
    """What made a model, as far as its path tells.

    Args:
        path: As for `load_teacher`.

    Returns:
        In words: of a run of ours its kind, label, seed, configuration, device and source
        revision; else the kind of file.

    Raises:
        ValueError: A file of the run is damaged.
    """
    if path.is_file():
        return "a GGUF file"
    if "model_type" in read_json(path / CONFIG):
        return "a Hugging Face checkpoint"
    run = RunFolder.open(path)
    said = f"{run.kind} run {run.identity['label']}, seed {run.identity['seed']}"
    homes = [path, *sorted((path / STAGES).glob("*-*"), reverse=True)]
    ran = next((found for home in homes if (found := last_environment(home))), {})
    on = [f"{word} {ran[name]}" for name, word in _RAN.items() if ran.get(name) is not None]
    return ", ".join([said, f"configuration {run.config_hash}", *on])


def frozen(model: LoopedModel, name: str, source: str = "memory") -> Teacher:
    """Make a teacher of a model.

    Args:
        model: The model; it is put into evaluation mode and its gradients are switched off.
        name: What it is called in tables.
        source: Where it came from.

    Returns:
        The teacher.
    """
    return Teacher(name, model.eval().requires_grad_(False), source)
