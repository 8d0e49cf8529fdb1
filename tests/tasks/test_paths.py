import itertools

import numpy as np
import pytest
from scipy.stats import chisquare

from tasks import paths
from tasks.streams import Stream

SHAPES = [(1, 1, 1), (2, 0, 1), (6, 2, 3), (7, 1, 2), (8, 0, 4), (9, 3, 9), (5, 5, 6)]


def enumerated(steps, end, height):
    """All paths, as tuples of steps up (True) and down, steps up first."""
    found = []
    for word in itertools.product((True, False), repeat=steps):
        heights = np.cumsum([1 if up else -1 for up in word])
        if heights.min() >= 0 and heights.max() <= height and heights[-1] == end:
            found.append(word)
    return found


@pytest.mark.parametrize(("steps", "end", "height"), SHAPES)
def test_paths_equal_exhaustive_enumeration(steps, end, height):
    expected = enumerated(steps, end, height)
    assert paths.count(steps, end, height) == len(expected)
    listed = paths.listed(np.arange(len(expected)), steps, end, height)
    assert [tuple(path) for path in listed.T.tolist()] == expected
    heights = np.cumsum(2 * np.array(expected).astype(int) - 1, axis=1)
    occupied = paths.occupancy(steps, end, height)
    assert occupied.shape == (steps + 1, height + 1)
    for t in range(steps):
        counts = np.bincount(heights[:, t], minlength=height + 1)
        np.testing.assert_allclose(occupied[t + 1], counts / len(expected), atol=1e-12)


@pytest.mark.parametrize(("steps", "end", "height"), SHAPES)
def test_drawn_paths_are_uniform(steps, end, height):
    drawn = paths.draw(Stream("paths"), steps, end, height, 20_001)
    found, counts = np.unique(drawn.T, axis=0, return_counts=True)
    assert {tuple(path) for path in found.tolist()} == set(enumerated(steps, end, height))
    assert len(counts) == 1 or chisquare(counts).pvalue > 1e-4


@pytest.mark.parametrize(("steps", "end", "height"), [(1001, 3, 4), (512, 0, 256), (999, 1, 64)])
def test_long_paths_stay_inside_and_arrive(steps, end, height):
    ups = paths.draw(Stream("long"), steps, end, height, 7)
    heights = np.cumsum(2 * ups.astype(int) - 1, axis=0)
    assert heights.min() == 0
    assert heights.max() <= height
    assert (heights[-1] == end).all()


def test_ways_are_scaled_counts():
    for steps, end, height in SHAPES:
        ways = paths.ways(steps, end, height)
        number = ways.rows[-1, 0] * np.exp(ways.logs[-1])
        assert number == pytest.approx(paths.count(steps, end, height))
