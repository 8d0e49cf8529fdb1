"""Names that nobody has registered."""

import ast
import copy
import pickle
from pathlib import Path

import pytest

from tasks.names import MOST, Named, nearest, unknown_name

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


@pytest.mark.parametrize("others", [0, 1, MOST - 1])
def test_the_nearest_is_proposed_beside_all_that_are_allowed(others):
    names = ["word", *(f"other{number}" for number in range(others))]
    listed = ", ".join(names)
    assert unknown_name("x", "wrod", names, more="or none") == (
        f"x: 'wrod' is not allowed, perhaps you meant word (choose from {listed}, or none)"
    )
    for far in ("zzz", "", None, 3):
        assert unknown_name("x", far, names) == (
            f"x: {far!r} is not allowed (choose from {listed})"
        )


def test_of_a_very_long_list_examples_are_named():
    names = [f"name-{number:03d}" for number in range(MOST + 1)]
    said = unknown_name("x", "name-11", names)
    assert "perhaps you meant name-011 (one of 25 names, such as name-011, " in said
    assert said.count("name-0") == 4
    far = unknown_name("x", "!", names)
    assert far == "x: '!' is not allowed (one of 25 names, such as name-000, name-012, name-024)"


def test_a_guess_among_few_must_be_closer():
    assert "perhaps" not in unknown_name("device", "gpu", ["cpu", "cuda"])
    assert "perhaps you meant s3" in unknown_name("recipe", "s33", ["parity", "s3"])
    assert "perhaps you meant gdn" in unknown_name("mixer", "gnd", ["gdn", *"abcdefgh"])


def test_a_dictionary_says_what_was_probably_meant():
    named = Named("preset", {"toy": 1, "large": 2})
    assert isinstance(named, dict)
    assert named == {"toy": 1, "large": 2}
    assert (named["toy"], named.get("toys"), "toys" in named) == (1, None, False)
    said = r"preset: 'toys' is not allowed, perhaps you meant toy \(choose from toy, large\)"
    for one in (named, pickle.loads(pickle.dumps(named)), copy.deepcopy(named)):
        with pytest.raises(KeyError, match=said):
            one["toys"]
    with pytest.raises(KeyError, match=r"preset: 3 is not allowed \(choose"):
        named[3]


def test_there_is_one_way_to_find_the_nearest_name():
    users = [
        path.relative_to(ROOT).as_posix()
        for folder in ("lt2theory", "tasks", "proofs_checks")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom) and "difflib" in ast.unparse(node)
    ]
    assert users == ["tasks/names.py"]
