"""Names that nobody has registered."""

import ast
from pathlib import Path

import pytest

from tasks.names import FEW, MOST, nearest, unknown_name

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "value", ["group_word", "group-word", "Group_Word", "grop_word", "grup_wor"]
)
def test_case_lines_and_slips_do_not_hide_a_name(value):
    assert nearest(value, ["parity", "group_word", "mqar"]) == ["group_word"]


def test_what_is_like_nothing_has_no_nearest():
    assert nearest("xyz", ["parity", "group_word"]) == []
    assert nearest("", ["parity"]) == []
    assert nearest("parity", []) == []


def test_a_short_list_is_listed_alone():
    names = [f"name{number}" for number in range(FEW)]
    assert unknown_name("x", "nam1", names) == (
        f"x: 'nam1' is not allowed (choose from {', '.join(names)})"
    )


def test_in_a_longer_list_the_nearest_is_proposed_beside_all():
    names = ["word", *(f"other{number}" for number in range(FEW))]
    listed = ", ".join(names)
    assert unknown_name("x", "wrod", names, more="or none") == (
        f"x: 'wrod' is not allowed, perhaps you meant word (choose from {listed}, or none)"
    )
    assert "perhaps" not in unknown_name("x", "zzz", names)


def test_of_a_very_long_list_examples_are_named():
    names = [f"name-{number:03d}" for number in range(MOST + 1)]
    said = unknown_name("x", "name-11", names)
    assert "perhaps you meant name-011 (one of 25 names, such as name-011, " in said
    assert said.count("name-0") == 4
    far = unknown_name("x", "!", names)
    assert far == "x: '!' is not allowed (one of 25 names, such as name-000, name-012, name-024)"


def test_there_is_one_way_to_find_the_nearest_name():
    users = [
        path.relative_to(ROOT).as_posix()
        for folder in ("lt2theory", "tasks", "proofs_checks")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom) and "difflib" in ast.unparse(node)
    ]
    assert users == ["tasks/names.py"]
