"""The performance page from small files, and the page of this tree."""

import json
from pathlib import Path

import pytest

from lt2theory.report.performance import main, performance_page
from lt2theory.report.performance_lines import Line, told

ROOT = Path(__file__).parents[2]
PLAN = """
[[sections]]
title = "Speed"
file = "speed.json"
limits = "Memory."

[[sections.lines]]
what = "fast"
where = { kind = "a" }
baseline = "theirs"
at_most = 3
show = ["rows"]

[[sections.lines]]
what = "slow"
where = { kind = "b" }
beside = { kind = "a" }
floor = "bytes"
at_most = 3

[[sections.lines]]
what = "gain"
where = { kind = "a" }
value = "gain"
unit = ""
at_least = 5

[[sections.lines]]
what = "absent"
where = { kind = "c" }

[[sections.lines]]
what = "no goal"
where = { kind = "a" }

[[sections]]
title = "Memory"
file = "missing.json"
limits = "Nothing."

[[sections.lines]]
what = "all of it"
at_most = 1
"""
NUMBERS = {
    "theirs": {"value": 9.5, "what": "plain loop", "sentence": "A plain loop takes 9.5 ms."},
    "bytes": {"value": 2.0, "what": "bytes", "sentence": "Counted by hand."},
}
SPEED = {
    "command": "lt2 bench speed",
    "date": "2026-11-30",
    "environment": {"device": "GPU", "packages": {"torch": "2.11", "triton": None}},
    "rows": [
        {"kind": "a", "ms": 7.0, "floor_ms": 1.0},
        {"kind": "a", "ms": 2.5, "floor_ms": 1.0, "gain": 5.0, "rows": 8},
        {"kind": "b", "ms": 4.0},
        {"kind": "b", "ms": None},
    ],
}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    files = {
        "performance-notes.toml": PLAN,
        "baselines.json": json.dumps(
            {"command": "theirs.py", "date": "2026-10", "environment": {}, "numbers": NUMBERS}
        ),
        "speed.json": json.dumps(SPEED),
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_every_line_has_its_verdict(results: Path) -> None:
    page = performance_page(results)
    for line in (
        "| fast | 9.5~ms (plain loop) | 2.5~ms (rows 8) | 1~ms | 2.5 | at most 3~ms | met |",
        "| slow | 2.5~ms (same run) | 4~ms | 2~ms | 2 | at most 3~ms | **missed** |",
        "| gain | - | 5 | - | - | at least 5 | met |",
        "| absent | - | - | - | - | - | not measured yet |",
        "| no goal | - | 2.5~ms | 1~ms | 2.5 | - | measured |",
        "| all of it | - | - | - | - | at most 1~ms | not measured yet |",
        "`results/speed.json`: `lt2 bench speed`; 2026-11-30; GPU; torch 2.11.",
        "`results/missing.json`: Not measured yet.",
        "Memory.",
        "- plain loop, 9.5: A plain loop takes 9.5 ms.",
    ):
        assert line.replace("~", "\N{NO-BREAK SPACE}") in page.splitlines()


def test_revisions_are_not_mixed() -> None:
    rows = [
        {"source": "old", "t": 1, "ms": 4.0},
        {"source": "old", "t": 2, "ms": 5.0},
        {"source": "older rows end here", "t": 1, "ms": 1.0},
    ]
    assert Line(what="spread", over="t").ours({"rows": rows}) == 25.0
    assert Line(what="growth", over="t", between=(1, 2)).ours({"rows": rows}) == 1.25
    assert Line(what="growth", over="t", between=(1, 3)).ours({"rows": rows}) is None
    assert Line(what="spread", over="t").ours({"rows": rows[2:]}) is None


def test_what_stands_outside_the_rows() -> None:
    line = Line(what="start", found=("start_s", "new"), unit="s", at_most=20)
    assert line.ours({"start_s": {"new": [3.0, 21.5]}}) == 21.5
    assert line.ours({"start_s": {}}) is None
    assert line.verdict(21.5) == "missed"
    assert line.verdict(20.0) == "met"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.01234, "0.0123\u00a0ms"),
        (4.0, "4\u00a0ms"),
        (99.94, "99.9\u00a0ms"),
        (12345.6, "12,346\u00a0ms"),
    ],
)
def test_three_digits(value: float, text: str) -> None:
    assert told(value, "ms") == text


def test_a_line_must_make_sense(results: Path) -> None:
    with pytest.raises(ValueError, match="not both"):
        Line(what="x", at_most=1, at_least=2)
    with pytest.raises(ValueError, match="give over"):
        Line(what="x", between=(1, 2))
    plan = results / "performance-notes.toml"
    plan.write_text(PLAN.replace('"theirs"', '"nobody"'), encoding="utf-8")
    with pytest.raises(ValueError, match="'nobody' of 'fast'"):
        performance_page(results)


def test_written_and_checked(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = results / "page.md"
    argv = ["--results", str(results), "--page", str(page)]
    assert main([*argv, "--check"]) == 1
    assert "make performance" in capsys.readouterr().err
    assert main(argv) == 0
    assert main([*argv, "--check"]) == 0
    (results / "missing.json").write_text('{"rows": [{"ms": 0.5}]}', encoding="utf-8")
    assert main([*argv, "--check"]) == 1


def test_the_page_is_what_the_results_give() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert page == performance_page(ROOT / "results"), "make performance"


def test_what_was_measured_apart_is_said_to_be(results: Path) -> None:
    path = results / "speed.json"
    speed = json.loads(path.read_text(encoding="utf-8"))
    speed["rows"][1]["source"], speed["rows"][2]["source"] = "1234567", "89abcde"
    path.write_text(json.dumps(speed), encoding="utf-8")
    assert "| slow | 2.5\u00a0ms (another run) | 4\u00a0ms |" in performance_page(results)
