"""What a linearization learns from, and whether its recipe fits that."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from lt2theory.fields import first_refusal
from lt2theory.linearize.recipe import Recipe
from lt2theory.linearize.teachers import Teacher
from lt2theory.models import LoopedModel
from lt2theory.runs import config_hash
from lt2theory.runs.hashing import file_sha256
from lt2theory.training.checkpoint import model_tensors
from lt2theory.training.lm import LmConfig, resolve
from lt2theory.training.lm.config import corpus_hash
from lt2theory.training.text import Corpus


@dataclass(frozen=True)
class Sources:
    """What a linearization learns from.

    Attributes:
        teacher: The teacher.
        corpus: Text, in the teacher's tokens.
        chat: File of conversations, for stages that read them.
        cache: Folder for what the teacher says, for stages that compare on its likeliest tokens;
            runs with the same teacher, text and windows share it. None asks it every time.
    """

    teacher: Teacher
    corpus: Corpus
    chat: Path | None = None
    cache: Path | None = None


def plan(recipe: Recipe, sources: Sources) -> list[LmConfig]:
    """The runs of the stages, all of them checked before any work.

    Args:
        recipe: The recipe.
        sources: What is learnt from.

    Returns:
        The resolved configurations.

    Raises:
        ValueError: A stage does not fit the teacher or the text.
    """
    _check_lengths(recipe, sources.corpus)
    known, ids = sources.teacher.model.config.vocab_size, sources.corpus.vocab_size
    if known < ids:
        raise ValueError(
            f"teacher: knows {known} tokens, but {sources.corpus.folder} is of {ids}; must be a "
            "language model on the same tokenizer"
        )
    runs = []
    students = recipe.students(sources.teacher.model.config)
    for stage, model in zip(recipe.stages, students[1:], strict=True):
        if stage.data == "chat" and sources.chat is None:
            raise ValueError(f"chat: no file given, which stage {stage.name!r} reads (data: chat)")
        try:
            config = stage.run(model, seed=recipe.seed, dtype=recipe.dtype)
            runs.append(resolve(config, sources.corpus))
        except ValidationError as error:
            reason = first_refusal(error, "run")
            raise ValueError(f"stages: {stage.name!r}: {reason}") from error
        except ValueError as error:
            raise ValueError(f"stages: {stage.name!r}: {error}") from error
    return runs


def _check_lengths(recipe: Recipe, corpus: Corpus) -> None:
    """Refuse windows that the corpus cannot fill.

    Raises:
        ValueError: Naming the field.
    """
    for split, windows, length in (
        ("train", "calibration_windows", "calibration_length"),
        ("eval", "recovery_windows", "recovery_length"),
    ):
        present = corpus.manifest.splits[split].tokens
        if getattr(recipe, windows) and getattr(recipe, length) > present:
            raise ValueError(
                f"{length}: {getattr(recipe, length)} must be at most the {present} tokens of the "
                f"{split} split of {corpus.folder}; prepare it with more text or a larger share"
                + (f", or give {windows} 0" if split == "eval" else "")
            )


def depends_on(recipe: Recipe, sources: Sources) -> dict[str, Any]:
    """What a linearization depends on besides its recipe.

    Args:
        recipe: The recipe.
        sources: What is learnt from.

    Returns:
        Plain JSON values: the teacher's name and weights, and hashes of the texts.
    """
    wants_chat = any(stage.data == "chat" for stage in recipe.stages)
    chat = sources.chat if wants_chat else None
    return {
        "teacher": {
            "name": sources.teacher.name,
            "weights": weights_fingerprint(sources.teacher.model),
        },
        "corpus": corpus_hash(sources.corpus),
        "chat": None if chat is None else file_sha256(chat),
    }


def weights_fingerprint(model: LoopedModel) -> str:
    """A hash of a model's weights and of how they are used.

    Args:
        model: The model.

    Returns:
        SHA-256 of its config and tensors, in hexadecimal digits.
    """
    digest = hashlib.sha256(config_hash(model.config.model_dump(mode="json")).encode())
    for name, tensor in sorted(model_tensors(model).items()):
        digest.update(name.encode())
        digest.update(tensor.float().contiguous().cpu().numpy().tobytes())
    return digest.hexdigest()
