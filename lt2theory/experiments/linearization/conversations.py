"""Conversations made of a text, for studies of instruction where no public set can be fetched.

Each asks for something that the text answers: to go on with a passage, to repeat a sentence, to
find the word that was left out. They teach a form and obedience to it, not knowledge.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from lt2theory.runs import write_text
from lt2theory.runs.prepare import make_folder
from lt2theory.training.text import Corpus

FILE = "conversations.jsonl"
COUNT = 20_000
_SENTENCE = re.compile(r"[A-Z][^.!?\n]{30,200}[.!?](?=\s)")

Make = Callable[[np.random.Generator, list[str]], tuple[str, str]]


def write_conversations(corpus: Corpus, path: Path, *, count: int = COUNT, seed: int = 0) -> Path:
    """Write conversations of the train split, as `lt2theory.training.text.chat` reads them.

    Args:
        corpus: The text.
        path: The file; what is there is kept.
        count: Most conversations.
        seed: Seed of what is asked.

    Returns:
        The file.

    Raises:
        ValueError: The text has no two sentences behind one another.
    """
    if path.is_file():
        return path
    rng = np.random.Generator(np.random.Philox(seed))
    lines = []
    for sentences in _passages(corpus, rng):
        question, answer = _MAKERS[int(rng.integers(len(_MAKERS)))](rng, sentences)
        turns = [("user", question), ("assistant", answer)]
        messages = [{"role": role, "content": content} for role, content in turns]
        lines.append(json.dumps({"messages": messages}))
        if len(lines) == count:
            break
    if not lines:
        raise ValueError(
            f"chat: {corpus.folder} has no sentences to make conversations of (give a file)"
        )
    make_folder(path.parent)
    write_text(path, "\n".join(lines) + "\n")
    return path


def _passages(corpus: Corpus, rng: np.random.Generator) -> Iterator[list[str]]:
    """Sentences that follow one another, two to four at a time, documents in a drawn order."""
    stream, tokenizer = corpus.stream("train"), corpus.tokenizer()
    for row in rng.permutation(stream.num_documents).tolist():
        text = tokenizer.decode(stream.document(row)[0]).decode(errors="replace")
        found = [" ".join(one.split()) for one in _SENTENCE.findall(text)]
        place = 0
        while place + 2 <= len(found):
            size = int(rng.integers(2, 5))
            yield found[place : place + size]
            place += size


def _go_on(rng: np.random.Generator, sentences: list[str]) -> tuple[str, str]:
    return f"Continue this text: {' '.join(sentences[:-1])}", sentences[-1]


def _repeat(rng: np.random.Generator, sentences: list[str]) -> tuple[str, str]:
    chosen = int(rng.integers(len(sentences)))
    number = ("first", "second", "third", "fourth")[chosen]
    return f"Repeat the {number} sentence: {' '.join(sentences)}", sentences[chosen]


def _fill(rng: np.random.Generator, sentences: list[str]) -> tuple[str, str]:
    words = sentences[-1].split()
    place = int(rng.integers(len(words)))
    gap = " ".join([*words[:place], "____", *words[place + 1 :]])
    asked = f"{sentences[0]} {gap}" if len(sentences) > 1 else gap
    return f"Which word is missing? {asked}", words[place]


_MAKERS: tuple[Make, ...] = (_go_on, _repeat, _fill)
