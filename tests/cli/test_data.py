"""`lt2 data`: from files to a corpus and what is shown of it."""

import json
import os
from pathlib import Path

import pytest

from lt2theory.cli import main
from lt2theory.training.text import Corpus
from lt2theory.training.text import xz as xz_module

Output = pytest.CaptureFixture[str]
EXCERPT = ["data", "prepare", "--sources", "excerpt", "--separator", r"\n\n\n"]


def test_prepare_and_show(tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xz_module, "PRESET", 4)  # 9 takes 0.7 GB
    out, result = tmp_path / "corpus", tmp_path / "result.json"
    assert main([*EXCERPT, "--out", str(out), "--json", str(result)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "tokenizer bytes, 258 ids"
    assert lines[-1] == str(out)
    manifest = Corpus(out).manifest
    assert json.loads(result.read_text()) == manifest.model_dump(mode="json")
    assert main([*EXCERPT, "--out", str(out)]) == 0
    assert capsys.readouterr().out.splitlines() == ["done before", *lines]

    argv = ["data", "show", str(out), "--split", "eval", "--characters", "40", "--verify", "--xz"]
    assert main([*argv, "--json", str(result)]) == 0
    shown = capsys.readouterr().out
    assert "document 0 of eval, " in shown
    assert "every shard is what it was" in shown
    assert "bits per byte alone" in shown
    found = json.loads(result.read_text())
    assert found["damaged"] == []
    assert 0 < found["xz"]["primed"] < found["xz"]["alone"] < 8

    shard = out / "test-00000.tokens"
    data = bytearray(shard.read_bytes())
    data[-1] ^= 1
    shard.write_bytes(data)
    assert main(argv) == 1
    assert "damaged: test-00000.tokens" in capsys.readouterr().out
    # Too short to be read, and the shard of the document that is to be shown.
    (out / "eval-00000.tokens").write_bytes(data[:80])
    assert main([*argv, "--json", str(result)]) == 1
    assert "damaged: eval-00000.tokens, test-00000.tokens" in capsys.readouterr().out
    assert json.loads(result.read_text())["damaged"] == ["eval-00000.tokens", "test-00000.tokens"]


def test_show_prints_no_control_characters(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "a.txt").write_bytes(b"\x1b[31mred\x07\xff ok\n")
    argv = ["data", "prepare", "--sources", str(tmp_path / "a.txt"), "--out", str(tmp_path / "c")]
    assert main([*argv, "--eval-share", "0", "--test-share", "0"]) == 0
    assert main(["data", "show", str(tmp_path / "c")]) == 0
    shown = capsys.readouterr().out
    assert "[31mred" in shown
    assert "\x1b" not in shown
    assert "\x07" not in shown


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ("prepare --out c", "--sources: no value given (required)"),
        ("prepare --sources none --out c", "--sources: 'none' is not allowed (no such file or"),
        ("prepare --sources excerpt", "--out: no value given (required)"),
        ("prepare --sources excerpt --out a.txt", "--out: 'a.txt' cannot be written ("),
        ("prepare --sources excerpt --out c --eval-share 2", "--eval-share: 2.0 is not allowed ("),
        ("prepare --sources excerpt --out c --eval-share .6 --test-share .6", "--eval-share: 0.6 "),
        (
            "prepare --sources excerpt --out c --tokenizer gpt9",
            "--tokenizer: 'gpt9' is not allowed (",
        ),
        ("prepare --sources excerpt --out c --workers -1", "--workers: -1 must be >= 0"),
        ("show c", "c is no prepared corpus (it has no manifest.json; "),
        ("show c --characters -1", "--characters: got -1, allowed are whole numbers >= 0"),
        ("prepare --sources . --out c --glob /a", "--glob: '/a' is not allowed (must be a pattern"),
        (
            "prepare --sources . --out c --glob b**",
            "--glob: 'b**' is not allowed (must be a pattern",
        ),
        ("fetch novels", "corpus: 'novels' is not allowed (choose from python-docs, "),
        ("fetch jargon", "--out: no value given (required)"),
    ],
)
def test_refusals(
    argv: str, line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("text")
    assert main(["data", *argv.split()]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"lt2: error: {line}")
    assert captured.err.count("\n") == 1
    assert os.listdir(tmp_path) == ["a.txt"]


def test_another_corpus_is_not_overwritten(tmp_path: Path, capsys: Output) -> None:
    out = ["--out", str(tmp_path / "c")]
    assert main([*EXCERPT, *out]) == 0
    assert main(["data", "prepare", "--sources", "excerpt", *out]) == 2
    assert "(--overwrite replaces it)" in capsys.readouterr().err
    assert main(["data", "prepare", "--sources", "excerpt", *out, "--overwrite"]) == 0
