"""Teachers: whatever is to be turned into a linear-time model, opened by its path."""

from dataclasses import dataclass
from pathlib import Path

import torch

from lt2theory.linearize.gguf_llama import GgufSource
from lt2theory.linearize.llama import load_llama
from lt2theory.linearize.weights import CONFIG, FolderSource
from lt2theory.models import LoopedModel
from lt2theory.runs.atomic import read_json
from lt2theory.training import load_model

_GGUF = ".gguf"


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


def load_teacher(
    path: Path, *, dtype: torch.dtype = torch.float32, device: torch.device | str = "cpu"
) -> Teacher:
    """Open a teacher.

    Args:
        path: A Hugging Face checkpoint of a Llama-like architecture or Ouro's, a GGUF file of a
            Llama, or a finished run of ours. Nothing is downloaded, no code of a checkpoint runs.
        dtype: Of its weights. bfloat16 halves memory; its logits then differ in the third digit.
        device: Where it is put.

    Returns:
        The teacher.

    Raises:
        ValueError: The path is none of these, or the model cannot be represented; the reason is
            named.
    """
    if path.is_file() and path.suffix == _GGUF:
        return frozen(load_llama(GgufSource(path), dtype=dtype).to(device), path.stem, "gguf")
    if not (path / CONFIG).is_file():
        raise ValueError(
            f"teacher: {str(path)!r} is not allowed (must be a Hugging Face checkpoint, a run's "
            f"folder, or a {_GGUF} file)"
        )
    if "model_type" in read_json(path / CONFIG):
        model = load_llama(FolderSource(path), dtype=dtype)
        return frozen(model.to(device), path.resolve().name, "folder")
    model, _ = load_model(path)
    return frozen(model.to(device=device, dtype=dtype), path.resolve().name, "run")


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
