import itertools
from fractions import Fraction

import numpy as np
import pytest

from tasks import swaps


@pytest.mark.parametrize("pointers", [2, 3, 5])
def test_codes_name_every_ordered_pair_once(pointers):
    first, second = swaps.named_pair(
        np.arange(pointers * (pointers - 1), dtype=np.uint16), pointers
    )
    pairs = set(zip(first.tolist(), second.tolist(), strict=True))
    assert pairs == set(itertools.permutations(range(pointers), 2))


def test_following_equals_swapping_in_a_list():
    rng = np.random.default_rng(0)
    code = rng.integers(20, size=(9, 31)).astype(np.uint8)
    first, second = swaps.named_pair(code, 5)
    held, places = swaps.follow(first, second, 5)
    for column in range(31):
        state = list(range(5))
        for t in range(9):
            x, y = int(first[t, column]), int(second[t, column])
            state[x], state[y] = state[y], state[x]
            assert held[t, column] == state[x]
        assert places[:, column].tolist() == state


@pytest.mark.parametrize("pointers", [2, 3, 4])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_chances_equal_exhaustive_enumeration(pointers, count):
    pairs = list(itertools.permutations(range(pointers), 2))
    home = unnamed = 0
    for word in itertools.product(pairs, repeat=count):
        state = list(range(pointers))
        for x, y in word:
            state[x], state[y] = state[y], state[x]
        home += state[0] == 0
        unnamed += all(0 not in pair for pair in word)
    total = len(pairs) ** count
    assert swaps.home_chance(count, pointers) == pytest.approx(float(Fraction(home, total)))
    assert swaps.unnamed_chance(count, pointers) == pytest.approx(float(Fraction(unnamed, total)))
