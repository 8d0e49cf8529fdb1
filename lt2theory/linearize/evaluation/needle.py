"""Needles in haystacks of growing length, measured in the model's own tokens."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Bool, Float64, Int64
from torch.nn import functional as F

from lt2theory.linearize.evaluation.intervals import mean_interval, share_interval
from lt2theory.linearize.evaluation.pair import EvaluationConfig, Haystack, NeedleKind, Pair
from lt2theory.linearize.evaluation.table import Measured
from lt2theory.mixers.base import at_least_float32
from lt2theory.models import LoopedModel
from lt2theory.training.passes import TOKENS_AT_ONCE
from lt2theory.training.runtime import Runtime
from lt2theory.training.text import Tokenizer
from lt2theory.training.text.needles import NEEDLES, needle_texts

_CHOICES = {"number": 10.0**7, "word": 256.0, "hex": 16.0**8}
"""How many values there are to guess from."""
_FIRST_WORDS = 64
"""By which the second stage that is written is longer than the first."""
_TRIES = 12
"""Stages that are written before the search for the last one bisects."""


@dataclass(frozen=True)
class Prompt:
    """A haystack with its question, and what follows.

    Attributes:
        context: Ids, the mark that begins a document first.
        answer: Ids of the value.
    """

    context: Int64[np.ndarray, " n"]
    answer: Int64[np.ndarray, " m"]


def needle_prompts(
    kind: NeedleKind,
    tokenizer: Tokenizer,
    *,
    length: int,
    size: int,
    seed: int = 0,
    haystack: Haystack = "repeated",
) -> tuple[Prompt, ...]:
    """Texts that are as long as fits; a second call has them ready.

    Args:
        kind: Kind of the value.
        tokenizer: Tokenizer of the models.
        length: Most tokens of a text with its question and answer.
        size: Texts.
        seed: Seed of the texts.
        haystack: The filler.

    Returns:
        The prompts; all have as many words of filler, the largest number for which none of them
        is longer than `length`.

    Raises:
        ValueError: Not even a needle without filler fits.
    """
    return _written(kind, _Known(tokenizer.fingerprint, tokenizer), length, size, seed, haystack)


@dataclass(frozen=True)
class _Known:
    """A tokenizer as a key: all of one fingerprint are equal."""

    fingerprint: str
    tokenizer: Tokenizer = field(compare=False)


@lru_cache(maxsize=64)
def _written(
    kind: NeedleKind, known: _Known, length: int, size: int, seed: int, haystack: Haystack
) -> tuple[Prompt, ...]:
    """As `needle_prompts`, which the cells of a study ask for again and again."""
    tokenizer = known.tokenizer
    task = dataclasses.replace(NEEDLES[kind], haystack=haystack)

    def written(stage: int) -> tuple[Prompt, ...]:
        texts = needle_texts(task, stage=stage, size=size, seed=seed)
        return tuple(_prompt(tokenizer, text) for text in texts)

    # The shortest stage has no filler.
    shortest = next(stage for stage in range(1, 64) if _allows(kind, stage))
    found = _longest_that_fits(written, shortest, length)
    if found is None:
        raise ValueError(
            f"needle_lengths: {length} tokens of {tokenizer.name!r} are not allowed (must hold a "
            f"needle, its question and its answer)"
        )
    return found


def _longest_that_fits(
    written: Callable[[int], tuple[Prompt, ...]], shortest: int, length: int
) -> tuple[Prompt, ...] | None:
    """The texts of the last stage of which none is longer than `length`, if there is one.

    Tokens grow all but linearly with words, so that a line through two stages nearly finds it. To
    write and tokenise thousands of words for each step of a bisection takes most of a minute.

    Returns:
        The texts, or None.
    """

    def tokens(prompts: tuple[Prompt, ...]) -> int:
        return max(len(one.context) + len(one.answer) for one in prompts)

    low, best = shortest, written(shortest)
    least = size = tokens(best)
    if size > length:
        return None
    high = max(low, length)  # a word takes at least a token
    slope, tries = 1.0, 0
    stage = low + _FIRST_WORDS
    while low < high:
        stage = max(low + 1, min(stage, high)) if tries < _TRIES else (low + high + 1) // 2
        prompts, tries = written(stage), tries + 1
        now = tokens(prompts)
        slope = max(1.0, (now - least) / (stage - shortest))
        if now <= length:
            low, best, size = stage, prompts, now
        else:
            high = stage - 1
        stage = low + int((length - size) / slope)
    return best


def _allows(kind: NeedleKind, stage: int) -> bool:
    try:
        NEEDLES[kind].check_stage(stage)
    except ValueError:
        return False
    return True


def _prompt(tokenizer: Tokenizer, text: dict[str, str]) -> Prompt:
    context = tokenizer.encode(text["context"].encode()).astype(np.int64)
    answer = tokenizer.encode(f" {text['answer']}".encode()).astype(np.int64)
    return Prompt(np.concatenate([np.array([tokenizer.begin]), context]), answer)


@torch.no_grad()
def answered(
    model: LoopedModel, prompts: Sequence[Prompt], runtime: Runtime
) -> tuple[Bool[np.ndarray, " n"], Float64[np.ndarray, " n"]]:
    """Whether greedy decoding gives each value, and what the value costs.

    Greedy decoding gives the value exactly where the likeliest token is right behind the right
    ones before it, so one call on the whole text decides.

    Args:
        model: The model.
        prompts: Texts of similar lengths.
        runtime: Device and precision.

    Returns:
        Right or wrong, and the mean cross-entropy of the value's tokens in nats, a text each.
    """
    right = np.zeros(len(prompts), dtype=bool)
    nats = np.zeros(len(prompts))
    read = [np.concatenate([one.context, one.answer[:-1]]) for one in prompts]
    longest = max(map(len, read))
    rows = max(1, TOKENS_AT_ONCE[runtime.device.type] // longest)
    for start in range(0, len(prompts), rows):
        part = slice(start, start + rows)
        inputs, lengths = _padded(read[part])
        answers = [torch.from_numpy(one.answer) for one in prompts[part]]
        with runtime.alone(), runtime.autocast():
            logits = model(
                runtime.tensor(inputs),
                lengths=None if (lengths == inputs.shape[1]).all() else runtime.tensor(lengths),
                last_logits=max(map(len, answers)),
            )
        for row, answer in enumerate(answers):
            own = at_least_float32(logits[row, -len(answer) :]).cpu()
            right[start + row] = bool((own.argmax(-1) == answer).all())
            nats[start + row] = float(F.cross_entropy(own, answer))
    return right, nats


def _padded(
    rows: list[Int64[np.ndarray, "..."]],
) -> tuple[Int64[np.ndarray, "b t"], Int64[np.ndarray, " b"]]:
    """Rows padded on the left, and how many ids each has."""
    lengths = np.array([len(row) for row in rows])
    inputs = np.zeros((len(rows), lengths.max()), dtype=np.int64)
    for row, ids in zip(inputs, rows, strict=True):
        row[len(row) - len(ids) :] = ids
    return inputs, lengths


def needle_rows(pair: Pair, config: EvaluationConfig) -> list[Measured]:
    """Needles as rows of the table.

    Args:
        pair: The models and their tokenizer.
        config: `needle_kinds`, `needle_lengths`, `needles`, `haystack` and `seed`. Lengths beyond
            the learned positions of a model are left out for it.

    Returns:
        For each model, kind and length `found` (share of whole values right, Wilson interval, the
        floor a guess) and `answer_nats` (a token of the value, bootstrap over texts).
    """
    rows = []
    for kind in config.needle_kinds:
        for length in config.needle_lengths:
            prompts = needle_prompts(
                kind,
                pair.tokenizer,
                length=length,
                size=config.needles,
                seed=config.seed,
                haystack=config.haystack,
            )
            for name, model in pair.models():
                limit = model.config.max_length
                if limit is not None and length > limit:
                    continue
                right, nats = answered(model, prompts, pair.runtime)
                place = {"part": "needle", "model": name, "kind": kind, "length": length}
                found, cost = share_interval(right), mean_interval(nats, seed=config.seed)
                floor = 1 / _CHOICES[kind]
                rows.append(Measured.of(found, metric="found", floor=floor, **place))
                rows.append(Measured.of(cost, metric="answer_nats", **place))
    return rows
