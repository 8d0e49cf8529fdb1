"""Needles in words: the instances and answers of the task, and files that lm_eval reads."""

import json
import re
from pathlib import Path

import pytest

from lt2theory.hf.needle import needle_texts, write_needle_tasks
from tasks.needle import Needle

TASKS = [
    Needle(),
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
        found = dict(re.findall(r"The magic value of (\w+) is (\w+)\.", hay))
        asked = re.fullmatch(
            r"What is the magic value of (\w+)\? The magic value of (\w+) is", question
        )
        assert asked is not None
        assert asked[1] == asked[2]
        assert len(found) == task.needles
        assert found[asked[1]] == text["answer"] == "".join(task.decode(targets[mask]))


def test_filler_stays_words() -> None:
    (text,) = needle_texts(Needle(haystack="repeated"), stage=64, size=1)
    hay = re.sub(r"The magic value of \w+ is \w+\. ?", "", text["context"].split("\n")[0])
    assert len(hay.split()) == 64 - (3 + 7) - (2 + 7)
    assert len(set(hay.split())) == 16  # one sentence again and again


def test_files(tmp_path: Path) -> None:
    names = write_needle_tasks(tmp_path / "new", stages=(40, 64), size=5, seed=1)
    assert names == ("lt2_needle_40", "lt2_needle_64")
    lines = (tmp_path / "new" / "lt2_needle_64.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == list(
        needle_texts(Needle(), stage=64, size=5, seed=1)
    )
    with pytest.raises(ValueError, match="stages"):
        write_needle_tasks(tmp_path, stages=())
