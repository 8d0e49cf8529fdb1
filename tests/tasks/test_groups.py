import itertools

import numpy as np
import pytest

from tasks.groups import canonical_name, group, group_order


def permutation(name, degree):
    """The images of 0 .. degree - 1 under an element in cycle notation."""
    images = list(range(degree))
    for cycle in name.strip("()").split(")("):
        points = [int(p) - 1 for p in cycle.split()]
        for here, there in zip(points, points[1:] + points[:1], strict=True):
            images[here] = there
    return tuple(images)


def then(first, second):
    return tuple(second[point] for point in first)


def even(images):
    pairs = itertools.combinations(range(len(images)), 2)
    return sum(images[i] > images[j] for i, j in pairs) % 2 == 0


@pytest.mark.parametrize(
    ("name", "degree", "order"),
    [("S3", 3, 6), ("S5", 5, 120), ("A4", 4, 12), ("A5", 5, 60), ("Z6", 6, 6), ("D5", 5, 10)],
)
def test_table_composes_the_named_permutations(name, degree, order):
    built = group(name)
    elements = [permutation(element, degree) for element in built.names]
    assert built.order == group_order(name) == order == len(set(elements))
    assert elements == sorted(elements)
    assert built.names[0] == "()"
    rng = np.random.default_rng(0)
    pairs = rng.integers(order, size=(200, 2)).tolist() + [[i, 0] for i in range(order)]
    for i, j in pairs:
        assert elements[built.cayley[i, j]] == then(elements[i], elements[j])


def test_elements_are_the_right_ones():
    assert {permutation(e, 4) for e in group("S4").names} == set(itertools.permutations(range(4)))
    four = itertools.permutations(range(4))
    assert {permutation(e, 4) for e in group("A4").names} == {p for p in four if even(p)}
    rotations = {tuple((k + i) % 5 for i in range(5)) for k in range(5)}
    assert {permutation(e, 5) for e in group("Z5").names} == rotations
    flips = {tuple((k - i) % 5 for i in range(5)) for k in range(5)}
    assert {permutation(e, 5) for e in group("D5").names} == rotations | flips


@pytest.mark.parametrize("name", ["S4", "D6", "A4xZ5", "Z2xZ2xZ3", "S3xD4"])
def test_tables_are_groups_with_identity_zero(name):
    table = group(name).cayley
    order = len(table)
    assert table.dtype == np.int32
    np.testing.assert_array_equal(table[0], np.arange(order))
    np.testing.assert_array_equal(table[:, 0], np.arange(order))
    np.testing.assert_array_equal(np.sort(table, axis=1), np.tile(np.arange(order), (order, 1)))
    rng = np.random.default_rng(0)
    a, b, c = rng.integers(order, size=(3, 500))
    np.testing.assert_array_equal(table[table[a, b], c], table[a, table[b, c]])


def test_direct_products_multiply_part_by_part():
    left, right, both = group("A4"), group("Z5"), group("A4xC5")
    assert both.name == "A4xZ5"
    for i, j in np.random.default_rng(1).integers(60, size=(100, 2)):
        expected = left.cayley[i // 5, j // 5] * 5 + right.cayley[i % 5, j % 5]
        assert both.cayley[i, j] == expected
    assert both.names[7] == f"{left.names[1]}x{right.names[2]}"


@pytest.mark.parametrize(
    ("name", "solvable", "derived"),
    [
        ("S3", True, 3),
        ("S4", True, 12),
        ("S5", False, 60),
        ("A4", True, 4),
        ("A5", False, 60),
        ("Z60", True, 1),
        ("D4", True, 2),
        ("D5", True, 5),
        ("A4xZ5", True, 4),
        ("A5xZ2", False, 60),
    ],
)
def test_solvability_and_commutators(name, solvable, derived):
    built = group(name)
    assert built.solvable is solvable
    table = built.cayley
    inverse = np.argmin(table, axis=1)  # the column of the identity
    # The commutators of small groups already form the commutator subgroup.
    commutators = table[table[inverse[:, None], inverse], table]
    assert built.derived_order == derived == np.unique(commutators).size


def test_transpositions_swap_two_points():
    swaps = [group("S4").names[i] for i in group("S4").transpositions]
    assert swaps == ["(3 4)", "(2 3)", "(2 4)", "(1 2)", "(1 3)", "(1 4)"]
    assert group("A4").transpositions.size == 0
    assert group("S3xZ2").transpositions.size == 0


@pytest.mark.parametrize(
    "name", ["S1", "S8", "A2", "Z1", "D2", "Z513", "Q8", "", "S5x", "s5", "S05"]
)
def test_unknown_and_oversized_groups_are_refused(name):
    with pytest.raises(ValueError, match=f"group: '{name}' is not allowed .must be S2..S7"):
        canonical_name(name)


def test_products_have_a_largest_order():
    with pytest.raises(ValueError, match=r"group: 'S7xZ2' is not allowed .*order <= 5040"):
        group("S7xZ2")
