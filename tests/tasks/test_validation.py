from dataclasses import dataclass
from typing import Literal

import pytest

from tasks.validation import check_count, check_fields, refusal


@dataclass
class Knobs:
    width: object = 3
    kind: object = "a"
    length: object = None


Knobs.__annotations__ = {"width": int, "kind": Literal["a", "b"], "length": int | None}


def test_refusal_names_field_value_and_range_in_one_line():
    assert refusal("size", 0, "an integer >= 1") == (
        "size: 0 is not allowed (must be an integer >= 1)"
    )


@pytest.mark.parametrize(
    ("knobs", "message"),
    [
        ({"width": "3"}, r"width: '3' is not allowed \(must be of type int\)"),
        ({"width": True}, "width: True is not allowed"),
        ({"width": 3.0}, "width: 3.0 is not allowed"),
        ({"kind": "c"}, "kind: 'c' is not allowed .choose from a, b."),
        ({"kind": "A"}, "kind: 'A' is not allowed, perhaps you meant a .choose from a, b."),
        ({"kind": 1}, "kind: 1 is not allowed"),
        ({"length": "x"}, "length: 'x' is not allowed .must be of type int or None."),
    ],
)
def test_wrong_types_and_options_are_refused(knobs, message):
    with pytest.raises(ValueError, match=message):
        check_fields(Knobs(**knobs))


@pytest.mark.parametrize("knobs", [{}, {"width": 7, "kind": "b", "length": 4}])
def test_right_types_pass(knobs):
    check_fields(Knobs(**knobs))


def test_counts_have_a_lower_limit():
    check_count("size", 1, 1)
    with pytest.raises(ValueError, match=r"size: 0 is not allowed \(must be an integer >= 1\)"):
        check_count("size", 0, 1)
    with pytest.raises(ValueError, match="seed: True is not allowed"):
        check_count("seed", True, 0)
