"""Helpers of the expressivity claims against values from the books."""

import itertools

import pytest

from proofs_checks.express_heads import abelian_factors
from proofs_checks.express_permutations import (
    class_size,
    cycles_of,
    of_type,
    partitions,
    permutation_matrix,
    swaps_of,
)
from proofs_checks.express_reflections import moved
from proofs_checks.symmetric_characters import character, moved_by, power_type

# Classes of S_4: e, (12), (12)(34), (123), (1234).
CLASSES = ((1, 1, 1, 1), (2, 1, 1), (2, 2), (3, 1), (4,))
TABLE = {
    (4,): (1, 1, 1, 1, 1),
    (3, 1): (3, 1, -1, 0, -1),
    (2, 2): (2, 0, 2, -1, 0),
    (2, 1, 1): (3, -1, -1, 0, 1),
    (1, 1, 1, 1): (1, -1, 1, 1, -1),
}


@pytest.mark.parametrize(("shape", "row"), TABLE.items(), ids=str)
def test_characters_of_s4(shape: tuple[int, ...], row: tuple[int, ...]) -> None:
    assert tuple(character(shape, cycles) for cycles in CLASSES) == row


def test_class_sizes_of_s4() -> None:
    assert [class_size(cycles) for cycles in CLASSES] == [1, 6, 3, 8, 6]


def test_rank_from_characters_is_the_rank_of_the_matrix() -> None:
    # The permutation matrices are the trivial representation and (n-1, 1).
    for cycles in partitions(6):
        assert moved_by((5, 1), cycles) == moved(permutation_matrix(of_type(cycles)))


def test_power_of_a_cycle_type() -> None:
    assert power_type((6, 4), 2) == (3, 3, 2, 2)


def test_swaps_compose_to_the_permutation() -> None:
    for images in itertools.permutations(range(4)):
        state = list(range(4))
        swaps = swaps_of(images)
        for i, j in swaps:
            state = [{i: j, j: i}.get(point, point) for point in state]
        assert tuple(state) == images
        assert len(swaps) == 4 - len(cycles_of(images))


@pytest.mark.parametrize(("orders", "alone", "heads"), [((3, 3), 4, 2), ((2, 2), 2, 1)])
def test_abelian_groups(orders: tuple[int, ...], alone: int, heads: int) -> None:
    assert abelian_factors(orders, heads=False) == alone
    assert abelian_factors(orders, heads=True) == heads
