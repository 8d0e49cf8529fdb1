"""Needles in haystacks of English words: the instances of `tasks.needle`, written out.

As in RULER (arXiv 2404.06654): a needle is a sentence, filler tokens are words, keys and values are
numbers, hexadecimal codes or pairs of words, and the answer follows a question.
"""

from collections.abc import Iterator, Sequence

from tasks.needle import Needle

NEEDLES = {
    "number": Needle(value="number"),
    "word": Needle(value="word"),
    "hex": Needle(value="hex"),
}
"""One needle by the kind of its value: seven digits, two words, eight hex digits."""

_WORDS = """
air apple arm bank bell bird boat bone book bread bridge brush cake camp card chair church clock
cloud coat coin corn cup desk door dream dust ear earth farm field fire fish floor flower fork
garden glass gold grass hand hill horse house ice island kite lake lamp leaf map milk moon paper
pond rain river road salt sand ship snow stone tree
"""
_FILLER = _WORDS.split()
"""A word for each of the task's 64 filler tokens."""
_FIRST = (
    "brave calm clever dark early fair gentle happy late loud plain proud quiet rapid wild young"
)
_SECOND = (
    "baker beaver captain doctor dragon eagle falcon hunter lion otter pilot rabbit sailor tiger "
    "wolf zebra"
)
_PAIRS = [f"{first}-{second}" for first in _FIRST.split() for second in _SECOND.split()]
"""Two words for each of the task's 256 words; none of them is filler."""


def needle_texts(
    task: Needle, *, stage: int, size: int, seed: int = 0, index: int = 0
) -> Iterator[dict[str, str]]:
    """Write a batch of the test split in words.

    Args:
        task: How many needles there are, and how keys and values look.
        stage: Words of filler and needles together, as the task counts tokens.
        size: Texts.
        seed: Seed of the batch.
        index: Number of the batch.

    Yields:
        `context`, which ends where the answer begins, and `answer`.

    Raises:
        ValueError: The task has no such batch.
    """
    batch = task.batch(stage=stage, split="test", seed=seed, index=index, size=size)
    names = [_spelt(name) for name in task.token_names]
    for inputs, targets, mask in zip(batch.inputs, batch.targets, batch.mask, strict=True):
        text = [names[token] for token in inputs[~mask]]
        answer = "".join(names[token] for token in targets[mask])
        yield {"context": _in_words(text, int(mask.sum())), "answer": answer}


def _spelt(name: str) -> str:
    """A token's name in the text: `w17` is a pair of words, `~3` a word of filler."""
    if name.startswith("w"):
        return _PAIRS[int(name[1:])]
    return _FILLER[int(name[1:])] if name.startswith("~") else name


def _in_words(tokens: Sequence[str], value_width: int) -> str:
    """Words for filler, a sentence for each needle, and the question."""
    rest, words = list(reversed(tokens)), []
    while (word := rest.pop()) != "QUERY":
        if word != "NEEDLE":
            words.append(word)
            continue
        key = ""
        while (part := rest.pop()) != "IS":
            key += part
        value = "".join(rest.pop() for _ in range(value_width))
        words.append(f"The magic value of {key} is {value}.")
    asked = "".join(reversed(rest))
    question = f"What is the magic value of {asked}? The magic value of {asked} is"
    return f"{' '.join(words)}\n{question}"
