"""Codes and what moves them, on heads whose way is known."""

import numpy as np
import pandas as pd
import pytest

from lt2theory.analysis import (
    Place,
    code_elements,
    code_kind,
    code_row,
    held_codes,
    named_codes,
)
from lt2theory.analysis.characters import ALTERNATING, STANDARD
from tests.analysis.group_places import (
    cascade,
    exact,
    noise,
    one_reflection,
    rewritten,
    swapped_labels,
    words_of,
)


def rows_of(place, words):
    return [code_row(code, place, words) for code in held_codes(place, words)]


@pytest.mark.parametrize("name", ["S3", "S4"])
def test_permutation_matrices_are_the_standard_representation(name):
    tokens, words = words_of(name)
    place = exact(tokens, words)
    (code,) = held_codes(place, words)
    row = code_row(code, place, words)
    degree = int(name[1:])
    assert (row["component"], row["dimension"], row["directions"]) == (
        STANDARD,
        degree - 1,
        degree - 1,
    )
    assert row["share"] == pytest.approx(1)
    assert row["carried"] == pytest.approx(1, abs=1e-9)
    assert row["carried_std"] == pytest.approx(0, abs=1e-9)
    assert row["leak"] == pytest.approx(0, abs=1e-9)
    assert row["character_error"] == pytest.approx(0, abs=1e-9)
    assert code_kind(row) == "representation"
    table = code_elements(code, place, words).set_index("element")
    cycles = {"()": 0, "(1 2)": 1, "(1 2 3)": 2} | ({"(1 2 3 4)": 3} if degree == 4 else {})
    for element, moved in cycles.items():
        assert table.loc[element, "reference"] == moved
        assert abs(table.loc[element, "rank_mean"] - moved) < 0.2
    assert table.loc["(1 2)", "rank_mean"] == pytest.approx(1)
    assert table.loc["(1 2 3)", "rank_mean"] == pytest.approx(2)
    assert (table["eigenvalues"] == table["expected"]).all()


def test_a_conditional_count_is_a_cascade():
    _, words = words_of("S3")
    (row,) = rows_of(cascade(words), words)
    assert row["component"] == STANDARD
    assert row["carried"] == pytest.approx(1)
    assert row["by_token"] < 0.7
    assert row["by_commuting"] == pytest.approx(1)
    assert code_kind(row) == "cascade"


def test_two_loops_of_one_reflection_are_a_cascade():
    """L6: as a function of the product alone the code is half gone; with the clock it is whole."""
    _, words = words_of("S3")
    (row,) = rows_of(one_reflection(words), words)
    assert row["component"].split(" with ") == [
        STANDARD,
        STANDARD + ALTERNATING,
    ]
    assert row["energy"] == pytest.approx(1, abs=0.01)
    assert row["carried"] == pytest.approx(1)
    assert row["by_token"] < 0.9
    assert code_kind(row) == "cascade"


def test_a_transition_that_needs_the_whole_product_is_feedback():
    _, words = words_of("S3")
    (row,) = rows_of(swapped_labels(words), words)
    assert row["carried"] == pytest.approx(1)
    assert row["by_commuting"] < 0.9
    assert row["by_product"] == pytest.approx(1)
    assert code_kind(row) == "feedback"


def test_a_code_that_is_written_afresh_is_not_carried():
    _, words = words_of("S3")
    rows = rows_of(rewritten(words), words)
    assert {row["component"] for row in rows} == {STANDARD, "the sign"}
    assert {row["carried"] for row in rows} == {0.0}
    assert {code_kind(row) for row in rows} == {"rewritten"}


def test_noise_holds_nothing():
    _, words = words_of("S3")
    assert held_codes(noise(words), words) == []


def test_products_that_do_not_occur_are_no_code():
    _, words = words_of("S5", size=4)
    assert held_codes(noise(words), words) == []


def test_an_idle_head_carries_nothing():
    """The identity leaves every code where it is, which is the wrong place but for one token."""
    tokens, words = words_of("S3")
    place = exact(tokens, words)
    nothing = np.broadcast_to(np.eye(3), place.transition.shape)
    idle = Place(0, 0, 0, place.before, place.after, nothing)
    (row,) = rows_of(idle, words)
    assert abs(row["carried"]) < 0.1
    assert code_kind(row) == "rewritten"


def test_the_best_place_of_every_component_is_named():
    row = {
        "layer": 0,
        "loop": 0,
        "component": STANDARD,
        "dimension": 2,
        "energy": 0.4,
        "landing": 0.9,
        "by_token": 1.0,
        "by_commuting": 1.0,
        "by_product": float("nan"),
        "character_error": 0.0,
    }
    table = pd.DataFrame(
        [
            row | {"head": 0, "carried": 0.9},
            row | {"head": 1, "carried": 0.95, "landing": 0.99},
            row | {"head": 2, "carried": 0.1, "energy": 0.9},
            row | {"head": 3, "carried": 0.5, "component": "the sign", "dimension": 1},
        ]
    )
    named = named_codes(table)
    assert named[["component", "head", "kind", "others"]].to_numpy().tolist() == [
        [STANDARD, 1, "representation", 1],
        ["the sign", 3, "unclear", 0],
    ]
    assert named_codes(pd.DataFrame()).empty


@pytest.mark.parametrize(
    ("changed", "kind"),
    [
        ({}, "representation"),
        ({"character_error": 0.3}, "unclear"),
        ({"by_token": 0.85, "by_commuting": 0.95}, "cascade"),
        ({"by_token": 0.91, "by_commuting": 0.99}, "cascade"),
        ({"by_token": 0.2, "by_commuting": 0.3, "by_product": 0.95}, "feedback"),
        ({"by_token": 0.2, "by_commuting": 0.3, "by_product": 0.4}, "unclear"),
        ({"by_product": float("nan")}, "representation"),
        ({"carried": 0.2}, "rewritten"),
        ({"carried": 0.6}, "unclear"),
    ],
)
def test_rules(changed, kind):
    row = {"carried": 0.9, "by_token": 0.99, "by_commuting": 0.99, "by_product": 0.99}
    assert code_kind(row | {"character_error": 0.0} | changed) == kind
