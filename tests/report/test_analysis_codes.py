"""The sentence that names a representation, on heads whose way is known."""

import pandas as pd
import pytest

from lt2theory.analysis import code_elements, code_row, held_codes
from lt2theory.report.analysis_codes import code_sections, verdict
from tests.analysis.group_places import cascade, exact, noise, rewritten, swapped_labels, words_of

FACTS = {"knobs": {"group": "S3"}, "loop_state": "accumulate", "num_loops": 2}


def tables_of(place, words, *, product=0.99, commuting=0.99, pairs=0.5):
    """The tables of a model with one head, in which the product is so readable at the end."""
    depth = {"layer": [-1, 0], "loop": [-1, 0], "product": [0.16, product], "chance": 0.17}
    depth |= {"commuting": [0.5, commuting], "commuting_chance": 0.51}
    head = {"layer": [0], "loop": [0], "head": [0], "product": [product], "product_pairs": [0.2]}
    head |= {"commuting": [0.5], "commuting_pairs": [pairs]}
    tables = {
        "group_readout": pd.DataFrame(depth),
        "group_heads": pd.DataFrame(head),
        "group_silenced": pd.DataFrame(
            {"layer": [0, 0], "head": [0, 1], "accuracy": [0.4, 0.9], "whole": [0.98, 0.98]}
        ),
    }
    codes = held_codes(place, words)
    if codes:
        tables["group_codes"] = pd.DataFrame([code_row(code, place, words) for code in codes])
        tables["group_elements"] = pd.concat([code_elements(c, place, words) for c in codes])
    return tables


def test_permutation_matrices_are_named_with_their_ranks():
    tokens, words = words_of("S3")
    said = verdict(tables_of(exact(tokens, words), words), FACTS)
    assert said[0] == (
        "Named: the states carry the standard representation (as a linear representation)."
    )
    assert "first readable after loop 1, layer 1 (99.0 %" in said[1]
    assert "Its sign is first readable" in said[1]
    assert "Its transitions put 100.0 ± 0.0 % of the next product's code in place" in said[2]
    assert (
        "accuracy goes from 98.0 % to 40.0 % (without another one 90.0 % in the median)" in said[2]
    )
    assert "is n - cycles: 0.00 ± 0.00 for 0, 1.00 ± 0.00 for 1, 2.00 ± 0.00 for 2" in said[3]
    assert "Over all 3 key directions it is 0.00 where it should be 0" in said[3]


@pytest.mark.parametrize(
    ("make", "name", "why"),
    [
        (cascade, "the standard representation (as a cascade)", "which makes it a cascade"),
        (swapped_labels, "the sign with the standard representation (by feedback)", "a feedback"),
    ],
)
def test_what_depends_on_the_prefix_is_named(make, name, why):
    _, words = words_of("S3")
    said = verdict(tables_of(make(words), words), FACTS)
    assert said[0] == f"Named: the states carry {name}."
    assert why in said[2]
    assert "n - cycles" not in " ".join(said)


def test_a_code_that_is_written_afresh_is_not_called_carried():
    _, words = words_of("S3")
    said = verdict(tables_of(rewritten(words), words), FACTS)
    assert said[0].endswith("but kept in a code that is written afresh.")
    assert "the transitions do not carry it" in said[2]


def test_a_model_that_tracks_nothing_names_nothing():
    _, words = words_of("S3")
    said = verdict(tables_of(noise(words), words, product=0.2, commuting=0.6), FACTS)
    assert said[0].startswith("No representation can be named: the product is not tracked (20.0 %")
    assert "nowhere readable, best after loop 1, layer 1 (20.0 %" in said[1]
    assert len(said) == 2
    outside = verdict(tables_of(noise(words), words), FACTS)
    assert "kept by no head's state linearly" in outside[0]


def test_half_a_solution_is_named_in_part():
    tokens, words = words_of("S3")
    said = verdict(tables_of(exact(tokens, words), words, product=0.5), FACTS)
    assert said[0].startswith("Named in part:")


def test_a_sign_that_is_only_relative_is_found():
    tokens, words = words_of("S3")
    said = verdict(tables_of(exact(tokens, words), words, pairs=0.97), FACTS)
    assert "in products of two numbers of the state of layer 1, head 1, loop 1 (97.0 %)" in said[-1]
    cyclic = verdict(
        tables_of(exact(tokens, words), words, pairs=0.97), FACTS | {"knobs": {"group": "Z3"}}
    )
    assert "sign" not in " ".join(cyclic)


def test_the_section_says_what_rescan_means():
    tokens, words = words_of("S3")
    tables = tables_of(exact(tokens, words), words)
    assert code_sections({}, FACTS) == []
    (section,) = code_sections(tables, FACTS)
    assert len(section.tables) == 4
    assert len(section.notes) == 1
    (section,) = code_sections(tables, FACTS | {"loop_state": "rescan"})
    assert "belongs to no state (L1)" in section.notes[1]
    row = section.tables[3].frame.set_index("element").loc["(1 2 3)"]
    assert (row["eigenvalues"], row["eigenvalues of rho"]) == ("-0.50 ± 0.87i", "-0.50 ± 0.87i")
    assert row["effective rank"] == "2.00 ± 0.00"
