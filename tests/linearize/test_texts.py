"""Texts of a linearization, prepared by the first of several processes."""

import threading
from pathlib import Path

import pytest

from lt2theory.linearize import texts
from lt2theory.linearize.texts import open_text
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
