from pathlib import Path

import pytest

from lt2theory.runs.jsonl import append_line, cut, drop_torn_line, read_lines


def test_lines_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    assert read_lines(path) == []
    append_line(path, {"b": 1, "a": 0.1})
    append_line(path, {"text": "two\nlines"})
    assert read_lines(path) == [{"a": 0.1, "b": 1}, {"text": "two\nlines"}]
    assert path.read_bytes().startswith(b'{"a":0.1,"b":1}\n')


def test_a_torn_last_line_is_left_out_and_dropped_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    append_line(path, {"a": 1})
    whole = path.stat().st_size
    path.write_bytes(path.read_bytes() + b'{"a":')
    assert read_lines(path) == [{"a": 1}]
    drop_torn_line(path)
    assert path.stat().st_size == whole
    append_line(path, {"a": 2})
    assert read_lines(path) == [{"a": 1}, {"a": 2}]


def test_a_file_that_is_one_torn_line_becomes_empty(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(b'{"a":')
    drop_torn_line(path)
    assert path.read_bytes() == b""
    drop_torn_line(tmp_path / "missing.jsonl")


def test_cut_keeps_the_beginning(tmp_path: Path) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(b"0123456789")
    cut(path, 4)
    assert path.read_bytes() == b"0123"


@pytest.mark.parametrize(("line", "what"), [(b"{x", "not valid JSON"), (b"3", "no JSON object")])
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes, what: str) -> None:
    path = tmp_path / "m.jsonl"
    path.write_bytes(b"{}\n" + line + b"\n")
    with pytest.raises(ValueError, match=rf"m\.jsonl line 2 .*{what}"):
        read_lines(path)
