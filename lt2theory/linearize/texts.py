"""Texts of a linearization: a corpus in the teacher's tokens, and what is read of it."""

import json
import time
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from lt2theory.linearize.gguf import SUFFIX as GGUF
from lt2theory.linearize.gguf_llama import GgufSource, tokenizer_files
from lt2theory.linearize.stages import Stage
from lt2theory.runs import Progress, config_hash, write_text
from lt2theory.runs.found import known
from lt2theory.runs.prepare import make_folder
from lt2theory.training.lm.ranks import starts_first
from lt2theory.training.lm.tokens import run_tokenizer
from lt2theory.training.text import Corpus, CorpusConfig, TextBatches, Windows, prepare
from lt2theory.training.text.chat import ChatWindows
from lt2theory.training.text.manifest import MANIFEST
from lt2theory.training.text.sources import open_source


def teacher_tokenizer(teacher: Path, root: Path) -> str:
    """The tokenizer of a teacher, as `lt2theory.training.text.open_tokenizer` takes it.

    Args:
        teacher: Its path, as `load_teacher` takes it.
        root: Folder below which that of a GGUF file is written out.

    Returns:
        A name or a folder.

    Raises:
        ValueError: The tokenizer is not known.
    """
    if teacher.suffix == GGUF:
        files = tokenizer_files(GgufSource(teacher))
        folder = root / f"tokenizer-{config_hash(files)}"
        make_folder(folder)
        for name, contents in files.items():
            write_text(folder / name, json.dumps(contents, indent=1))
        return str(folder)
    if (teacher / "tokenizer.json").is_file():
        return str(teacher)
    return run_tokenizer(teacher).name


def open_text(text: Path, teacher: Path, root: Path, *, progress: Progress | None = None) -> Corpus:
    """A corpus, prepared with the teacher's tokenizer where it is not one yet.

    Of several processes the first prepares it; torchrun ends the others if it is refused.

    Args:
        text: Folder of a corpus, or a file or folder of text.
        teacher: Path of the teacher.
        root: Folder below which a new corpus is kept; the same text gives the same folder, and one
            that was written since another.
        progress: Told how far the preparation is.

    Returns:
        The corpus.

    Raises:
        ValueError: There is no such text, it is the folder of something else, or the tokenizer is
            not known.
    """
    if (text / MANIFEST).is_file():
        return Corpus(text)
    if not text.exists():
        raise ValueError(f"text: {str(text)!r} is not there (must be a corpus, a file or a folder)")
    if (other := known(text)) is not None:
        raise ValueError(f"text: {str(text)!r} is not allowed (must hold text; it is {other})")
    config = CorpusConfig(sources=(str(text),), tokenizer=teacher_tokenizer(teacher, root))
    folder = root / f"text-{config_hash(config.model_dump(mode='json') | _files(config, text))}"
    if starts_first():
        prepare(config, folder, progress=progress)
    while not (folder / MANIFEST).is_file():
        time.sleep(0.1)
    return Corpus(folder)


def _files(config: CorpusConfig, text: Path) -> dict[str, Any]:
    """The files of a text as they are now: one that has changed since gives another corpus."""
    listing = open_source(str(text), config).listing()
    root = text if text.is_dir() else text.parent
    return {"files": [[*pair, (root / pair[0]).stat().st_mtime_ns] for pair in listing]}


def stage_windows(stage: Stage, corpus: Corpus, chat: Path | None, seed: int) -> Windows:
    """What a stage reads.

    Args:
        stage: The stage.
        corpus: The text.
        chat: File of conversations.
        seed: Seed of the order.

    Returns:
        The windows.

    Raises:
        ValueError: There are no conversations, or nothing in them is learnt.
    """
    if stage.data == "text":
        return TextBatches(
            corpus.stream("train"),
            length=stage.sequence_length,
            batch_size=stage.batch_size,
            seed=seed,
        )
    if chat is None:
        raise ValueError(f"chat: no file given, which stage {stage.name!r} reads (data: chat)")
    return ChatWindows(
        chat,
        corpus.tokenizer(),
        length=stage.sequence_length,
        batch_size=stage.batch_size,
        seed=seed,
    )


def train_tokens(corpus: Corpus, windows: int, length: int) -> Int[Tensor, "b t"]:
    """Windows of the train split, from a shuffle of their own.

    Args:
        corpus: The text.
        windows: How many.
        length: Tokens of each.

    Returns:
        Token ids.

    Raises:
        ValueError: The split is shorter than a window.
    """
    return _tokens(corpus, "train", windows, length)


def eval_tokens(corpus: Corpus, windows: int, length: int) -> Int[Tensor, "b t"]:
    """Windows of the eval split, likewise.

    Args:
        corpus: The text.
        windows: How many.
        length: Tokens of each.

    Returns:
        Token ids.

    Raises:
        ValueError: The split is empty, or shorter than a window.
    """
    return _tokens(corpus, "eval", windows, length)


def _tokens(corpus: Corpus, split: str, windows: int, length: int) -> Tensor:
    batches = TextBatches(corpus.stream(split), length=length, batch_size=windows, seed=2**20)
    return torch.from_numpy(batches.rows(0, 0, windows).inputs)
