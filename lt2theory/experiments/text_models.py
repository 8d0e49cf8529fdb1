"""Trained language models by their folders, and texts that they go on with."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from lt2theory.models import Generation, LoopedModel, Reading, Sampling, generate
from lt2theory.runs import read_json, run_status
from lt2theory.runs.found import found
from lt2theory.training.lm import load_lm
from lt2theory.training.lm.tokens import run_tokenizer
from lt2theory.training.text import Tokenizer, open_tokenizer


@dataclass(frozen=True)
class TextModel:
    """A model and the tokenizer that it was trained with.

    Attributes:
        model: The model, in evaluation mode.
        tokenizer: Its tokenizer.
    """

    model: LoopedModel
    tokenizer: Tokenizer


@dataclass(frozen=True)
class Continuation:
    """How one text went on.

    Attributes:
        text: The new text, without the prompt and without marks.
        tokens: How many tokens it has, the end mark included.
        ended: Whether the model ended it.
        loops: Loops after which each token was read, where tokens may leave early; else None.
    """

    text: str
    tokens: int
    ended: bool
    loops: list[int] | None = None


def open_text_model(path: Path, *, device: torch.device | str = "cpu") -> TextModel:
    """Open a language model.

    Args:
        path: Folder of a run of `lt2 train`, or one that `LoopedLTForCausalLM.save_pretrained` and
            a tokenizer have written.
        device: Where the model goes. On a CPU, kernels of a GPU that the folder names are left to
            'auto'.

    Returns:
        The model, with the dtype that it was saved in.

    Raises:
        ValueError: The folder holds neither.
    """
    if (path / "corpus.json").is_file() and run_status(path) != "absent":
        return TextModel(load_lm(path, device=device)[0].eval(), run_tokenizer(path))
    config = path / "config.json"
    if not config.is_file() or read_json(config).get("model_type") != "looped_lt":
        raise ValueError(
            f"{path} holds no run of lt2 train and no saved looped model; found {found(path)}"
        )
    # transformers takes seconds to import.
    from lt2theory.hf import LoopedLTConfig, LoopedLTForCausalLM

    named = LoopedLTConfig.from_pretrained(path, local_files_only=True)
    named.looped["backend"] = named.looped_config.on(device).backend
    saved = LoopedLTForCausalLM.from_pretrained(
        path, config=named, local_files_only=True, dtype="auto"
    )
    return TextModel(saved.model.to(device).eval(), open_tokenizer(str(path)))


def continue_text(
    source: TextModel,
    prompt: str,
    *,
    max_new_tokens: int,
    sampling: Sampling | None = None,
    samples: int = 1,
    reading: Reading | None = None,
) -> list[Continuation]:
    """Go on with a text, through the cache.

    Args:
        source: Model and tokenizer.
        prompt: The text before; the model reads it behind the mark that begins a document.
        max_new_tokens: Most tokens of a continuation.
        sampling: As for `generate`; None takes the likeliest token.
        samples: How many continuations.
        reading: As for `generate`.

    Returns:
        Continuations, each up to its end mark.

    Raises:
        ValueError: `samples` is below 1, or as for `generate`.
    """
    if samples < 1:
        raise ValueError(f"samples: {samples} is not allowed (must be >= 1)")
    tokenizer, model = source.tokenizer, source.model
    ids = [tokenizer.begin, *tokenizer.encode(prompt.encode()).tolist()]
    if model.config.vocab_size < tokenizer.vocab_size:
        raise ValueError(
            f"tokenizer: {tokenizer.name!r} has {tokenizer.vocab_size} tokens, the model "
            f"{model.config.vocab_size}"
        )
    tokens = torch.tensor([ids] * samples, device=model.embedding.weight.device)
    new = generate(
        model,
        tokens,
        max_new_tokens,
        sampling=sampling,
        stop_ids=(tokenizer.end,),
        reading=reading,
    )
    return [_continuation(tokenizer, new, row) for row in range(samples)]


def _continuation(tokenizer: Tokenizer, new: Generation, row: int) -> Continuation:
    count = int(new.lengths[row])
    ids: np.ndarray = new.tokens[row, :count].cpu().numpy()
    ended = count > 0 and int(ids[-1]) == tokenizer.end
    known = ids[(ids < tokenizer.vocab_size) & (ids != tokenizer.end)]
    loops = None if new.exits is None else (new.exits[row, :count] + 1).tolist()
    return Continuation(tokenizer.decode(known).decode(errors="replace"), count, ended, loops)
