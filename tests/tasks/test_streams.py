import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from tasks.streams import Stream, smallest_unsigned

# One draw in ten thousand fails by chance; the streams are fixed, so a failure is a change.
LEAST_P = 1e-4


def frequencies(outcomes):
    return np.unique(outcomes, axis=0, return_counts=True)[1]


def test_words_are_those_of_philox_under_the_named_key():
    first, again = Stream("a", 1, {"x": 2, "y": 3}), Stream("a", 1, {"y": 3, "x": 2})
    np.testing.assert_array_equal(first.words(5), again.words(5))
    assert not np.array_equal(Stream("a", 1).words(5), Stream("a", 2).words(5))
    assert not np.array_equal(Stream("a", "1").words(5), Stream("a", 1).words(5))


@pytest.mark.parametrize(
    ("bound", "kind"),
    [(2, np.uint8), (256, np.uint8), (257, np.uint16), (65536, np.uint16), (65537, np.uint32)],
)
def test_smallest_unsigned_holds_the_largest_value(bound, kind):
    assert smallest_unsigned(bound) is kind
    assert np.iinfo(kind).max >= bound - 1


@pytest.mark.parametrize("bound", [1, 2, 3, 8, 120, 256, 4095])
def test_below_is_uniform(bound):
    values = Stream("below", bound).below(bound, 501, 101)
    assert values.shape == (501, 101)
    assert values.max() < bound
    counts = np.bincount(values.reshape(-1), minlength=bound)
    assert bound == 1 or chisquare(counts).pvalue > LEAST_P
    if bound > 2:
        # Neighbours are independent, too.
        joint = np.histogram2d(values[:, :-1].ravel(), values[:, 1:].ravel(), bins=3)[0]
        expected = np.outer(joint.sum(1), joint.sum(0)) / joint.sum()
        assert chisquare(joint.ravel(), expected.ravel(), ddof=4).pvalue > LEAST_P


def test_exponentials_have_the_exponential_distribution():
    draws = Stream("exponentials").exponentials(101, 103)
    assert draws.shape == (101, 103)
    assert draws.min() >= 0
    assert kstest(draws.ravel(), "expon").pvalue > LEAST_P


@pytest.mark.parametrize("width", [1, 2, 7, 300])
def test_permutations_hold_every_value_once(width):
    rows = Stream("permutations", width).permutations(33, width)
    np.testing.assert_array_equal(np.sort(rows, axis=1), np.tile(np.arange(width), (33, 1)))


def test_permutations_are_uniform():
    counts = frequencies(Stream("uniform").permutations(24_000, 4))
    assert counts.size == 24
    assert chisquare(counts).pvalue > LEAST_P


@pytest.mark.parametrize(("pool", "columns"), [(5, 2), (4, 3), (4, 2), (6, 1), (3, 3)])
def test_distinct_samples_are_uniform_in_order(pool, columns):
    rows = Stream("distinct", pool, columns).distinct(pool, 30_000, columns)
    counts = frequencies(rows)
    assert counts.size == np.prod([pool - j for j in range(columns)])
    assert chisquare(counts).pvalue > LEAST_P


def test_rows_that_ran_short_are_drawn_again_without_bias(monkeypatch):
    monkeypatch.setattr(
        "tasks.streams.math.sqrt", lambda _: -0.3
    )  # three draws, one row in 64 short
    counts = frequencies(Stream("short").distinct(8, 56_000, 2))
    assert counts.size == 56
    assert chisquare(counts).pvalue > LEAST_P


@pytest.mark.parametrize(("pool", "columns"), [(4095, 64), (4095, 2047), (70_000, 3), (100, 51)])
def test_large_samples_are_distinct_and_cover_the_pool(pool, columns):
    rows = Stream("large", pool, columns).distinct(pool, 201, columns).astype(np.int64)
    ordered = np.sort(rows, axis=1)
    assert (ordered[:, 1:] > ordered[:, :-1]).all()
    assert rows.max() < pool
    assert kstest(rows[:, -1] / pool, "uniform").pvalue > LEAST_P
