import itertools
from collections import Counter

import pytest

from tasks import chances


@pytest.mark.parametrize(("draws", "kinds"), [(1, 1), (1, 5), (4, 2), (5, 3), (3, 7), (6, 1)])
def test_largest_counts_equal_exhaustive_enumeration(draws, kinds):
    words = list(itertools.product(range(kinds), repeat=draws))
    largest = sum(max(Counter(word).values()) for word in words)
    expected = largest / len(words) / draws
    assert chances.most_frequent(draws, kinds) == pytest.approx(expected, abs=1e-11)


def test_large_counts_stay_between_their_bounds():
    for draws, kinds in ((700, 14), (1000, 2), (33, 65534)):
        share = chances.most_frequent(draws, kinds)
        assert max(1 / kinds, 1 / draws) <= share < 1 / kinds + 3 * (1 / kinds / draws) ** 0.5 + 0.1
