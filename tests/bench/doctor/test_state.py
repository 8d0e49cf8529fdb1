import json
import os
from pathlib import Path

import pytest

from lt2theory.bench.doctor.measure import Outcome
from lt2theory.bench.doctor.state import FinishedCases
from lt2theory.runs.jsonl import append_line


def test_outcomes_of_other_versions_do_not_count(tmp_path: Path, make_case):
    path = tmp_path / "state.jsonl"
    outcome = Outcome(make_case("chunked"), "right", "")
    FinishedCases(path, {"torch": "2.7"}, 60.0).add(outcome)
    assert FinishedCases(path, {"torch": "2.7"}, 60.0).get(outcome.case) == outcome
    assert FinishedCases(path, {"torch": "2.8"}, 60.0).get(outcome.case) is None


def test_what_hung_is_tried_again_with_more_time(tmp_path: Path, make_case):
    path = tmp_path / "state.jsonl"
    outcome = Outcome(make_case("hanging"), "hung", "hung after 60 s")
    FinishedCases(path, {}, 60.0).add(outcome)
    assert FinishedCases(path, {}, 60.0).get(outcome.case) == outcome
    assert FinishedCases(path, {}, 90.0).get(outcome.case) is None


@pytest.mark.parametrize(
    "content",
    [
        '{"loss": 1}\n',
        '{"a": 1}',
        "a text\nwithout a last line end",
        "one line without an end",
        '{"key":"abc"}',
        '{"key":"0123456789ab',
        "[" * 100_000 + "\n",
        "\x00\xff",
    ],
)
def test_a_file_of_something_else_is_refused_and_untouched(tmp_path: Path, content: str):
    path = tmp_path / "state.jsonl"
    path.write_text(content, encoding="latin-1")
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"state of a doctor|is not valid JSON"):
        FinishedCases(path, {}, 60.0)
    assert path.read_bytes() == before


def test_a_foreign_end_of_a_state_is_refused_and_untouched(tmp_path: Path, make_case):
    path = tmp_path / "state.jsonl"
    FinishedCases(path, {}, 60.0).add(Outcome(make_case("chunked"), "right", ""))
    path.write_bytes(path.read_bytes() + b"a note of mine")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="state of a doctor"):
        FinishedCases(path, {}, 60.0)
    assert path.read_bytes() == before


def test_a_line_torn_anywhere_is_dropped(tmp_path: Path, make_case):
    path = tmp_path / "state.jsonl"
    outcome = Outcome(make_case("chunked"), "right", "")
    FinishedCases(path, {}, 60.0).add(outcome)
    whole = path.read_bytes()
    for size in range(1, len(whole)):
        path.write_bytes(whole + whole[:size])
        assert FinishedCases(path, {}, 60.0).get(outcome.case) == outcome
        assert path.read_bytes() == whole
    path.write_bytes(whole[:-9])  # the first line: enough of it is there to know it for ours
    assert FinishedCases(path, {}, 60.0).get(outcome.case) is None
    assert path.read_bytes() == b""


def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match=r"pipe is no regular file \(it is a pipe\)"):
        FinishedCases(tmp_path / "pipe", {}, 60.0)
    with pytest.raises(ValueError, match=r"is no regular file \(it is a folder\)"):
        FinishedCases(tmp_path, {}, 60.0)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("verdict", "perfect", "verdict: 'perfect' is not allowed"),
        ("verdict", ["right"], "verdict: .* is not allowed"),
        ("mixer", [], r"mixer: \[\] is not allowed"),
        ("width", "16", "width: '16' is not allowed"),
        ("start", "later", "start: 'later' is not allowed"),
        ("value_error", "small", "value_error: 'small' is not allowed"),
        ("colour", 1, "colour: no such field"),
        ("verdict", None, "verdict: None is not allowed"),
    ],
)
def test_a_damaged_outcome_is_refused(tmp_path: Path, make_case, field, value, said):
    path = tmp_path / "state.jsonl"
    FinishedCases(path, {}, 60.0).add(Outcome(make_case("chunked"), "right", ""))
    line = json.loads(path.read_text())
    line["outcome"][field] = value
    append_line(path, line)
    with pytest.raises(ValueError, match=rf"state\.jsonl line 2 is damaged: .*{said}"):
        FinishedCases(path, {}, 60.0)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("key", 1, "key: 1 is not"),
        ("limit", "9", "limit: '9' is not"),
        ("outcome", [], r"outcome: \[\]"),
        ("outcome", {}, "mixer: Field required"),
    ],
)
def test_a_damaged_line_is_refused(tmp_path: Path, make_case, field, value, said):
    path = tmp_path / "state.jsonl"
    FinishedCases(path, {}, 60.0).add(Outcome(make_case("chunked"), "hung", ""))
    line = json.loads(path.read_text())
    path.unlink()
    append_line(path, {**line, field: value})
    with pytest.raises(ValueError, match=rf"state\.jsonl line 1 is damaged: .*{said}"):
        FinishedCases(path, {}, 90.0)
