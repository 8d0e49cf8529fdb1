"""Needles in words: every text asks for what it holds."""

import re

import pytest

from lt2theory.training.text.needles import NEEDLES, needle_texts
from tasks.needle import Needle

TASKS = [
    *NEEDLES.values(),
    Needle(needles=3, key="number", value="hex"),
    Needle(needles=2, value="word", haystack="repeated"),
]


@pytest.mark.parametrize("task", TASKS)
def test_texts_ask_for_what_they_hold(task: Needle) -> None:
    batch = task.batch(stage=80, split="test", seed=3, index=1, size=8)
    texts = list(needle_texts(task, stage=80, size=8, seed=3, index=1))
    assert len({text["context"] for text in texts}) == 8
    for text, targets, mask in zip(texts, batch.targets, batch.mask, strict=True):
        hay, question = text["context"].split("\n")
        found = dict(re.findall(r"The magic value of ([\w-]+) is ([\w-]+)\.", hay))
        asked = re.fullmatch(
            r"What is the magic value of ([\w-]+)\? The magic value of ([\w-]+) is", question
        )
        assert asked is not None
        assert asked[1] == asked[2]
        assert len(found) == task.needles
        assert found[asked[1]] == text["answer"]
        if task.value == "word":
            assert re.fullmatch(r"[a-z]+-[a-z]+", text["answer"])
        else:
            assert text["answer"] == "".join(task.decode(targets[mask]))


def test_different_words_are_spelt_differently() -> None:
    task = Needle(needles=32, value="word")
    (text,) = needle_texts(task, stage=200, size=1)
    assert len(set(re.findall(r"value of ([\w-]+) is [\w-]+\.", text["context"]))) == 32


def test_filler_stays_words() -> None:
    (text,) = needle_texts(Needle(haystack="repeated"), stage=64, size=1)
    hay = re.sub(r"The magic value of [\w-]+ is \w+\. ?", "", text["context"].split("\n")[0])
    assert len(hay.split()) == 64 - (3 + 7) - (2 + 7)
    assert len(set(hay.split())) == 16  # one sentence again and again
