"""`lt2 bench efficiency`: refusals, and a session on a stand-in for a GPU."""

import json
from pathlib import Path

import pytest
import torch

from lt2theory.cli import main


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ("x.txt", "FILE: 'x.txt' is not allowed (must end in .json)"),
        ("x.json --batches 0", "--batches: (0,) is not allowed (numbers >= 1)"),
        ("x.json --arms rnn", "--arms: 'rnn' is not allowed (choose from full, gdn, nsa"),
        ("x.json --minutes 0", "--minutes: 0.0 is not allowed"),
        ("x.json --figure x.pdf", "--figure: 'x.pdf' is not allowed (must end in .svg)"),
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
    assert main(["bench", "efficiency", *argv.split()]) == 2
    assert f"lt2: error: {line}" in capsys.readouterr().err


def test_a_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cells that cannot fit need no device: the rows, the figure and what is left are real."""
    from lt2theory.bench.efficiency import Meter

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "A device")
    monkeypatch.setattr(Meter, "memory", lambda self: 1e9)
    monkeypatch.chdir(tmp_path)
    argv = "x.json --arms full --forms looped --batches 8 --lengths 1024 8192 --figure x.svg"
    assert main(["bench", "efficiency", *argv.split()]) == 0
    out = capsys.readouterr().out
    assert "full      looped          decode  b8     1024 out of memory: cache" in out
    assert out.endswith("x.json: 4 of 4 cells; the same command goes on\n")
    content = json.loads((tmp_path / "x.json").read_text())
    assert [row["ms"] for row in content["rows"]] == [None] * 4
    assert content["environment"]["device"] == "A device"
    assert (tmp_path / "x.svg").stat().st_size > 1000
    assert main(["bench", "efficiency", *argv.split()]) == 0
    assert len(json.loads((tmp_path / "x.json").read_text())["rows"]) == 4
