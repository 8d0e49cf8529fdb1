"""Characters by what defines them: orthogonality, known tables, and projections."""

import numpy as np
import pytest

from lt2theory.analysis.characters import (
    ALTERNATING,
    commuting_part,
    components,
    eigenvalues,
    inverses,
    ratios,
    with_clock,
)
from tasks.groups import group


@pytest.mark.parametrize("name", ["S3", "S4", "S5", "A4", "A5", "Z2", "Z6", "D5", "A4xZ5", "Z2xZ2"])
def test_projections_split_the_functions_on_the_group(name):
    g = group(name)
    found = components(g)
    table = ratios(g)
    projections = [one.projection(table) for one in found]
    np.testing.assert_allclose(sum(projections), np.eye(g.order), atol=1e-10)
    for index, projection in enumerate(projections):
        np.testing.assert_allclose(projection @ projection, projection, atol=1e-10)
        rank = found[index].degree * found[index].dimension
        assert round(np.trace(projection)) == rank
        translated = projection[np.ix_(g.cayley[:, 1], g.cayley[:, 1])]
        np.testing.assert_allclose(translated, projection, atol=1e-10)


def test_the_tables_of_s4_and_a5():
    s4 = {one.name: one.character for one in components(group("S4"))}
    names = group("S4").names
    standard = s4["the standard representation"]
    assert [round(standard[names.index(g)]) for g in ("()", "(1 2)", "(1 2 3)", "(1 2 3 4)")] == [
        3,
        1,
        0,
        -1,
    ]
    assert len(s4) == 5
    assert "the sign times the standard representation" in s4
    icosahedral = [one for one in components(group("A5")) if one.dimension == 3]
    golden = (1 + 5**0.5) / 2
    for one in icosahedral:
        assert one.character.max() == pytest.approx(3)
        assert np.isclose(one.character, golden).sum() == 12


def test_conjugate_pairs_are_one_real_component():
    found = components(group("Z5"))
    assert [(one.name, one.degree, one.dimension) for one in found[1:]] == [
        ("the rotation by 1/5 of a turn", 1, 2),
        ("the rotation by 2/5 of a turn", 1, 2),
    ]
    assert [one.name for one in components(group("Z2"))][1] == "the sign"


def test_eigenvalues_of_the_standard_representation_give_n_minus_cycles():
    s4 = group("S4")
    standard = next(one for one in components(s4) if one.name == "the standard representation")
    roots = eigenvalues(standard, s4)
    moved = {name: sum(abs(r - 1) > 1e-6 for r in roots[i]) for i, name in enumerate(s4.names)}
    assert (moved["()"], moved["(1 2)"], moved["(1 2)(3 4)"], moved["(1 2 3 4)"]) == (0, 1, 2, 3)
    for element, some in enumerate(roots):
        assert np.isclose(sum(some), standard.character[element])


def test_kernels_and_commuting_parts():
    s3 = group("S3")
    sign = components(s3)[1]
    assert [s3.names[g] for g in sign.kernel()] == ["()", "(1 2 3)", "(1 3 2)"]
    assert commuting_part(s3).tolist() == [0, 1, 1, 0, 0, 1]
    assert commuting_part(group("A5")).max() == 0
    assert sorted(commuting_part(group("Z6")).tolist()) == list(range(6))
    np.testing.assert_array_equal(s3.cayley[np.arange(6), inverses(s3)], 0)


def test_the_clock_doubles_the_components():
    steady = components(group("S3"))
    both = with_clock(steady)
    assert [one.name for one in both[3:]] == [
        "the parity of the position",
        "the sign" + ALTERNATING,
        "the standard representation" + ALTERNATING,
    ]
    assert both[4].character.round(9).tolist()[:4] == [1, -1, -1, 1]
