"""Texts of a linearization, prepared by the first of several processes."""

import threading
from pathlib import Path

import pytest

from lt2theory.linearize import texts
from lt2theory.linearize.texts import open_text
from lt2theory.runs import write_json
from lt2theory.training.lm.config import corpus_hash
from lt2theory.training.text import CorpusConfig, prepare


def test_other_processes_wait_for_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("some text " * 50)
    monkeypatch.setattr(texts, "teacher_tokenizer", lambda *_: "bytes")
    monkeypatch.setenv("RANK", "1")
    seen: list[Path] = []

    def wait() -> None:
        seen.append(open_text(tmp_path / "a.txt", tmp_path, tmp_path).folder)

    other = threading.Thread(target=wait, daemon=True)
    other.start()
    other.join(0.5)
    assert other.is_alive()
    monkeypatch.setenv("RANK", "0")
    first = open_text(tmp_path / "a.txt", tmp_path, tmp_path).folder
    other.join(5)
    assert seen == [first]
    assert prepare(CorpusConfig(sources=(str(tmp_path / "a.txt"),)), first)[1]


def test_a_text_that_has_changed_gives_another_corpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one of the same size; a linearization of the first then refuses it by its contents."""
    monkeypatch.setattr(texts, "teacher_tokenizer", lambda *_: "bytes")
    text = tmp_path / "text"
    (text / "below").mkdir(parents=True)
    (text / "below" / "a.txt").write_text("some text " * 50)
    first = open_text(text, tmp_path, tmp_path)
    assert open_text(text, tmp_path, tmp_path).folder == first.folder
    (text / "below" / "a.txt").write_text("same size " * 50)
    second = open_text(text, tmp_path, tmp_path)
    assert second.folder != first.folder
    assert corpus_hash(second) != corpus_hash(first)


def test_the_folder_of_a_run_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    write_json(tmp_path / "run" / "config.json", {"kind": "lm", "identity": {}})
    (tmp_path / "run" / "metrics.jsonl").write_text("{}")
    with pytest.raises(ValueError, match=r"^text: .*run' is not allowed .*it is a run of kind lm"):
        open_text(tmp_path / "run", tmp_path, tmp_path)
