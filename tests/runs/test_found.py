"""What lies at a path, in words."""

from pathlib import Path

import pytest

from lt2theory.runs import write_json
from lt2theory.runs.found import found, is_corpus

RUN = {"kind": "lm", "identity": {}}
STUDY = {"kind": "curriculum", "runs": []}
CORPUS = {"splits": {}, "tokenizer": {}}


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("config.json", RUN, "a run of kind lm"),
        ("config.json", {"model_type": "llama"}, "a saved model of type llama"),
        ("config.json", {}, "a folder with config.json"),
        ("manifest.json", STUDY, "a study of kind curriculum"),
        ("manifest.json", CORPUS, "a prepared corpus"),
        ("manifest.json", {"runs": []}, "a folder with manifest.json"),
    ],
)
def test_a_folder_is_what_it_begins_with(
    name: str, value: dict[str, object], said: str, tmp_path: Path
) -> None:
    write_json(tmp_path / name, value)
    assert found(tmp_path) == said
    assert is_corpus(tmp_path) == (value is CORPUS)


def test_what_is_nothing_known_is_told_by_its_names(tmp_path: Path) -> None:
    assert found(tmp_path) == "an empty folder"
    assert found(tmp_path / "missing") == "nothing of that name"
    for name in "edcba":
        (tmp_path / name).write_text("")
    assert found(tmp_path / "a") == "a file"
    assert found(tmp_path) == "a folder with a, b, c and 2 more"
    (tmp_path / "config.json").write_text("[")
    assert found(tmp_path) == "a folder with a, b, c and 3 more"


def test_a_folder_around_them_names_them(tmp_path: Path) -> None:
    for name in ("notes", "one", "two", "run", "study", ".git"):
        (tmp_path / name).mkdir()
    for name in ("one", "two"):
        write_json(tmp_path / name / "manifest.json", CORPUS)
    assert found(tmp_path) == "a folder of prepared corpora: one, two"
    write_json(tmp_path / "run" / "config.json", RUN)
    write_json(tmp_path / "study" / "manifest.json", STUDY)
    assert found(tmp_path) == "a folder of runs and studies: run, study"
