"""`lt2 report`: refusals; what a report says is tested with the reports."""

from pathlib import Path

import pytest

from lt2theory.cli import main


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ("", "PATH: no value given (required)"),
        ("absent", "absent is not a folder"),
        ("empty", "empty has no report; expected the folder of a run, a study, "),
        ("empty --out x.pdf", "--out: 'x.pdf' is not allowed (must end in .html)"),
        ("empty --out no/x.html", "--out: 'no/x.html' cannot be written (no folder no)"),
        ("empty --out old.html", "--out: 'old.html' exists (--overwrite replaces it)"),
    ],
)
def test_refusals(
    argv: str,
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("old.html").write_text("old")
    assert main(["report", *argv.split()]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"lt2: error: {line}")
    assert captured.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "old.html"]
