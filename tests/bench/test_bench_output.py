"""What `lt2 bench` prints and writes: every row once it is there."""

import json
from pathlib import Path

import pytest

from lt2theory.cli.bench_output import Growing


def test_a_file_holds_the_rows_so_far(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.json"
    told = Growing(path, threads=1)
    told({"pattern": "gdn", "ms": 1.23456})
    assert json.loads(path.read_text())["rows"] == [{"pattern": "gdn", "ms": 1.23456}]
    told({"pattern": "nsa", "ms": 2.0, "fits": 8})
    rows = json.loads(path.read_text())["rows"]
    assert [row["pattern"] for row in rows] == ["gdn", "nsa"]
    assert rows[0]["fits"] is None
    assert capsys.readouterr().err.splitlines() == ["gdn 1.235", "nsa 2 8"]


def test_no_file_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    Growing(None, threads=1)({"length": 7})
    assert capsys.readouterr().err == "7\n"
