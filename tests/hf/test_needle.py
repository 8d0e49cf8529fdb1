"""Files that lm_eval reads."""

import json
from pathlib import Path

import pytest

from lt2theory.hf.needle import write_needle_tasks
from lt2theory.training.text.needles import needle_texts
from tasks.needle import Needle


def test_files(tmp_path: Path) -> None:
    names = write_needle_tasks(tmp_path / "new", stages=(40, 64), size=5, seed=1)
    assert names == ("lt2_needle_40", "lt2_needle_64")
    lines = (tmp_path / "new" / "lt2_needle_64.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == list(
        needle_texts(Needle(), stage=64, size=5, seed=1)
    )
    with pytest.raises(ValueError, match="stages"):
        write_needle_tasks(tmp_path, stages=())
