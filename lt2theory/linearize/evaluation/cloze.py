"""Cloze: held-out text up to a word, which is to be said; words seen before, and new ones."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from lt2theory.linearize.evaluation.intervals import mean_interval, share_interval
from lt2theory.linearize.evaluation.needle import Prompt, answered
from lt2theory.linearize.evaluation.pair import EvaluationConfig, Pair
from lt2theory.linearize.evaluation.table import Measured
from lt2theory.training.text import Tokenizer
from lt2theory.training.text.corpus import TokenStream

KINDS = ("seen", "new")
"""Whether the word stands in the context already."""
_WORD = re.compile(rb"(?<= )[A-Za-z]{4,}(?=[^A-Za-z])")
"""At least four letters behind a blank, as they are one token of most tokenizers with it."""
_LEAST = 32
"""Bytes of a context, at least."""


@dataclass(frozen=True)
class Cloze:
    """A passage of held-out text, and the word behind it.

    Attributes:
        context: The bytes before the blank in front of the word.
        word: The word.
        kind: One of `KINDS`.
    """

    context: bytes
    word: bytes
    kind: str


def cloze_texts(
    stream: TokenStream, tokenizer: Tokenizer, *, context: int, size: int, seed: int = 0
) -> list[Cloze]:
    """Passages in an order of their own, as many of each kind where the text has them.

    Args:
        stream: Held-out text.
        tokenizer: Its tokenizer.
        context: Most bytes before a word.
        size: Most passages of a kind.
        seed: Seed of the choice.

    Returns:
        The passages, kind after kind; no two words of a document are nearer than `context`.

    Raises:
        ValueError: The text holds no such word.
    """
    found: dict[str, list[Cloze]] = {kind: [] for kind in KINDS}
    rng = np.random.Generator(np.random.Philox(seed))
    for row in rng.permutation(stream.num_documents).tolist():
        text = tokenizer.decode(stream.document(row)[0])
        for one in _of_document(text, context, int(rng.integers(context))):
            if len(found[one.kind]) < size:
                found[one.kind].append(one)
        if all(len(part) == size for part in found.values()):
            break
    if not any(found.values()):
        raise ValueError(
            f"split: {stream.split!r} is not allowed for cloze (no word of four letters stands "
            f"behind {_LEAST} bytes of a document)"
        )
    return [one for part in found.values() for one in part]


def _of_document(text: bytes, context: int, first: int) -> Iterator[Cloze]:
    """The first word behind each stretch of a document."""
    place = max(_LEAST, first)
    while (match := _WORD.search(text, place)) is not None:
        before, word = text[max(0, match.start() - 1 - context) : match.start() - 1], match.group()
        if len(before) >= _LEAST:
            seen = re.search(rb"(?<![A-Za-z])" + word + rb"(?![A-Za-z])", before)
            yield Cloze(before, word, "seen" if seen else "new")
        place = match.end() + context


def cloze_rows(pair: Pair, config: EvaluationConfig) -> list[Measured]:
    """Cloze as rows of the table.

    Args:
        pair: The models and the text.
        config: `clozes`, `cloze_context` and `seed`.

    Returns:
        For each model and kind `found` (share of words that greedy decoding gives, Wilson interval;
        the floor is the commonest word of those asked) and `answer_nats` (a token of the word,
        bootstrap over passages).
    """
    texts = cloze_texts(
        pair.stream,
        pair.tokenizer,
        context=config.cloze_context,
        size=config.clozes,
        seed=config.seed,
    )
    rows = []
    for kind in KINDS:
        own = [one for one in texts if one.kind == kind]
        if not own:
            continue
        commonest = Counter(one.word for one in own).most_common(1)[0][1]
        prompts = [_prompt(pair.tokenizer, one) for one in own]
        for name, model in pair.models():
            right, nats = answered(model, prompts, pair.runtime)
            place = {"part": "cloze", "model": name, "kind": kind, "length": config.cloze_context}
            floor = commonest / len(own)
            rows.append(Measured.of(share_interval(right), metric="found", floor=floor, **place))
            cost = mean_interval(nats, seed=config.seed)
            rows.append(Measured.of(cost, metric="answer_nats", **place))
    return rows


def _prompt(tokenizer: Tokenizer, one: Cloze) -> Prompt:
    ids = [tokenizer.encode(part).astype(np.int64) for part in (one.context, b" " + one.word)]
    return Prompt(np.concatenate([np.array([tokenizer.begin]), ids[0]]), ids[1])
