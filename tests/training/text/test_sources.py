"""Sources: what is found in which order, and what is refused with its place."""

import gzip
import json
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from lt2theory.training.text import CorpusConfig
from lt2theory.training.text.sources import open_source


def read(name: Path | str, **options: object) -> list[bytes]:
    config = CorpusConfig.model_validate({"sources": [str(name)], **options})
    return [document.text for document in open_source(str(name), config).documents()]


def test_a_folder_in_the_order_of_its_names(tmp_path: Path) -> None:
    for name in ("b.txt", "a/z.md", "a.txt", "a/b/c.rst", ".hidden/d.txt", "e.bin", "ü.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(b"c.txt.gz"))
    names = ["a.txt", "a/b/c.rst", "a/z.md", "b.txt", "c.txt.gz", "ü.txt"]
    assert read(tmp_path) == [name.encode() for name in names]
    assert read(tmp_path, glob="*.bin") == [b"e.bin"]
    config = CorpusConfig(sources=(str(tmp_path),))
    assert [name for name, _ in open_source(str(tmp_path), config).listing()] == names


@pytest.mark.parametrize("packed", [False, True])
def test_json_lines(packed: bool, tmp_path: Path) -> None:
    texts = ["one", "", "zwei\nZeilen", "\N{GRINNING FACE}"]
    lines = "\n\n".join(json.dumps({"body": text, "n": 1}) for text in texts).encode()
    path = tmp_path / ("a.jsonl.gz" if packed else "a.jsonl")
    path.write_bytes(gzip.compress(lines) if packed else lines)
    assert read(path, text_field="body") == [text.encode() for text in texts]


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pd.DataFrame({"text": ["one", None, "日本"] * 700, "n": range(2100)}).to_parquet(path)
    assert read(path) == [b"one", b"", "日本".encode()] * 700


def test_separator_with_escapes(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\n\ntwo\n\n\\nthree")
    assert read(path, separator=r"\n\n") == [b"one", b"two", b"\\nthree"]
    assert read(path, separator=r"\\n") == [b"one\n\ntwo\n\n", b"three"]


def test_the_excerpt_is_small_and_public() -> None:
    texts = read("excerpt")
    assert [text[:30] for text in texts] == [
        b"The Constitution of the United",
        b"The Declaration of Independenc",
    ]
    assert sum(map(len, texts)) < 200_000


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"text": "a"}\n{"text"', r"a.jsonl:2 is not valid JSON"),
        ("a.jsonl", b'{"body": "a"}', r"text_field: 'text' of .*a.jsonl:1 is no text \(it is no "),
        ("a.jsonl", b'{"text": 3}', r"is no text \(it is a int\)"),
        ("a.jsonl", b'{"text": "\\ud800"}', r"a.jsonl:1 cannot be written as UTF-8"),
        ("a.jsonl", b"[1]", r"is no text"),
        ("a.parquet", b"text", r"a.parquet is no Parquet file"),
        ("a.txt.gz", b"text", r"a.txt.gz cannot be read"),
        ("a.txt.gz", gzip.compress(b"", mtime=0)[:10] + b"\xff" * 40, r"a.txt.gz cannot be read"),
        ("a.jsonl", b"[" * 100_000, r"a.jsonl:1 is not valid JSON"),
        ("a.txt.gz", gzip.compress(b"text" * 99, mtime=0)[:-9], r"a.txt.gz cannot be read"),
    ],
)
def test_damage_is_named(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read(tmp_path / name)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    pd.DataFrame({"body": ["a"]}).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"has no column 'text' \(it has body\)"):
        read(tmp_path / "a.parquet")


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"sources: .* \(no such file or folder\)"):
        read(tmp_path / "none")
    with pytest.raises(ValueError, match=r"'excerp' is not allowed, perhaps you meant excerpt"):
        read(Path("excerp"))
    with pytest.raises(ValueError, match=r"\(no file of it matches .txt or "):
        read(tmp_path)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """A package `datasets` that has one dataset; what was asked of it."""
    asked: list[tuple[object, ...]] = []

    def load_dataset(
        path: str, name: str | None, *, split: str, streaming: bool
    ) -> Iterator[dict[str, str]]:
        asked.append((path, name, split, streaming))
        if path == "none":
            raise FileNotFoundError("no such dataset")
        return iter([{"text": "one"}, {"text": "two"}])

    module = types.ModuleType("datasets")
    monkeypatch.setattr(module, "load_dataset", load_dataset, raising=False)
    monkeypatch.setitem(sys.modules, "datasets", module)
    return asked


def test_datasets_are_streamed(hub: list[tuple[object, ...]]) -> None:
    assert read("dataset:owner/name:train") == [b"one", b"two"]
    assert read("dataset:owner/name:small:test") == [b"one", b"two"]
    assert hub == [("owner/name", None, "train", True), ("owner/name", "small", "test", True)]
    with pytest.raises(ValueError, match="sources: 'dataset:none:train' cannot be loaded: no such"):
        read("dataset:none:train")


def test_datasets_need_their_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ValueError, match=r"needs the package datasets \(pip install datasets\)"):
        read("dataset:owner/name:train")
    with pytest.raises(ValueError, match=r"\(must be dataset:NAME:SPLIT or"):
        read("dataset:owner/name")
