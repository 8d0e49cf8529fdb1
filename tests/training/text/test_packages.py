"""Text from Debian packages, with the system's tools replaced: nothing is downloaded."""

import gzip
import os
from pathlib import Path

import pytest

from lt2theory.runs import read_json
from lt2theory.training.text import CorpusConfig, fetch, prepare
from lt2theory.training.text.packages import PACKAGES, keep_texts


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An apt-get that knows python3.12-doc alone, and a dpkg-deb that unpacks two pages."""
    folder = tmp_path / "bin"
    folder.mkdir()
    apt = '[ "$1 $2" = "download python3.12-doc" ] || { echo "E: no $2" >&2; exit 100; }\n'
    write(folder / "apt-get", apt + "echo archive > python3.12-doc_3.12_all.deb\n")
    pages = "$3/usr/share/doc/python3.12/html/_sources"
    unpack = f'mkdir -p "{pages}/c"\nprintf one > "{pages}/a.rst.txt"\n'
    write(folder / "dpkg-deb", unpack + f'printf two > "{pages}/c/b.rst.txt"\n')
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def write(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)


def test_fetch_and_prepare(tools: Path, tmp_path: Path) -> None:
    out = tmp_path / "docs"
    assert fetch("python-docs", out) == 2
    assert sorted(path.name for path in out.iterdir()) == [
        "a.rst.txt",
        "c--b.rst.txt",
        "source.json",
    ]
    assert (out / "c--b.rst.txt").read_text() == "two"
    card = read_json(out / "source.json")
    assert card["package"] == "python3.12-doc_3.12_all.deb"
    assert card["licence"] == "PSF-2.0"
    manifest, _ = prepare(CorpusConfig(sources=(str(out),)), tmp_path / "corpus")
    assert manifest.source.documents == 2
    with pytest.raises(ValueError, match="is not empty"):
        fetch("python-docs", out)


def test_refusals(tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ValueError, match=r"no package dict-gcide \('apt-get update' may help\): E: "
    ):
        fetch("gcide", tmp_path / "docs")
    assert not (tmp_path / "docs").exists()
    with pytest.raises(
        ValueError, match=r"name: 'novels' is not allowed \(choose from python-docs"
    ):
        fetch("novels", tmp_path / "docs")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="comes as a Debian package, and there is no apt-get here"):
        fetch("python-docs", tmp_path / "docs")


def test_compressed_texts_are_unpacked(tmp_path: Path) -> None:
    unpacked, out = tmp_path / "unpacked" / "usr" / "share" / "dictd", tmp_path / "out"
    unpacked.mkdir(parents=True)
    out.mkdir()
    (unpacked / "gcide.dict.dz").write_bytes(gzip.compress(b"words"))
    (unpacked / "gcide.index").write_text("index")
    assert keep_texts(tmp_path / "unpacked", PACKAGES["gcide"].files, out) == 1
    assert (out / "gcide.dict.txt").read_text() == "words"
    with pytest.raises(ValueError, match=r"the package has no file '\*.pod'"):
        keep_texts(tmp_path / "unpacked", "*.pod", out)
