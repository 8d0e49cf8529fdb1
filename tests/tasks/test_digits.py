import itertools

import numpy as np
import pytest

from tasks import digits
from tasks.streams import Stream


@pytest.mark.parametrize("radices", [(2, 3, 2), (5,), (1, 4), (300, 2)])
def test_places_and_digits_correspond_in_lexicographic_order(radices):
    count = int(np.prod(radices))
    listed = digits.from_index(np.arange(count), radices)
    expected = list(itertools.product(*(range(radix) for radix in radices)))
    assert [tuple(row) for row in listed.tolist()] == expected


@pytest.mark.parametrize(("pool", "width"), [(4, 1), (4, 2), (5, 3), (4, 4), (3, 0)])
def test_falling_digits_list_every_ordered_sample_once(pool, width):
    radices = tuple(pool - j for j in range(width)) or (1,)
    strings = digits.from_index(np.arange(int(np.prod(radices))), radices)[:, :width]
    samples = {tuple(row) for row in digits.falling(strings, pool).tolist()}
    assert samples == set(itertools.permutations(range(pool), width))


def test_drawn_digits_stay_below_their_radices_and_reach_them():
    radices = (2, 2, 2, 7, 7, 3, 2)
    rows = digits.draw(Stream("draw"), radices, 501)
    assert rows.shape == (501, 7)
    np.testing.assert_array_equal(rows.max(axis=0), np.array(radices) - 1)
    assert len(np.unique(rows[:, :3], axis=0)) == 8
