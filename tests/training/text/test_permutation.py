"""The keyed permutation: each place once, different by key, without visible order."""

import numpy as np
import pytest

from lt2theory.training.text.permutation import Permutation

SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 63, 64, 65, 1000, 4097, 70001]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("key", [0, 1])
def test_every_number_once(size: int, key: int) -> None:
    images = Permutation(size, "test", key)(np.arange(size))
    assert np.array_equal(np.sort(images), np.arange(size))


def test_a_place_needs_no_other(rng: np.random.Generator) -> None:
    shuffle = Permutation(5000, "test")
    images = shuffle(np.arange(5000))
    places = rng.integers(0, 5000, 300)
    assert np.array_equal(shuffle(places), images[places])


def test_huge_sizes_are_injective_and_bounded(rng: np.random.Generator) -> None:
    size = 10**15 + 7
    places = np.unique(rng.integers(0, size, 20000))
    images = Permutation(size, "test")(places)
    assert len(np.unique(images)) == len(places)
    assert 0 <= images.min() <= images.max() < size


def test_keys_give_different_orders() -> None:
    orders = {tuple(Permutation(50, "test", key)(np.arange(50))) for key in range(100)}
    assert len(orders) == 100


@pytest.mark.parametrize("size", [5, 100, 4097])
def test_orders_look_random(size: int) -> None:
    """Where a place goes is uniform over keys, and neighbours are not kept together."""
    keys = 1000
    images = np.stack(
        [Permutation(size, "test", key)(np.arange(min(size, 64))) for key in range(keys)]
    )
    counts = np.bincount(images[:, 0] * 5 // size, minlength=5)
    chi_squared = float(((counts - keys / 5) ** 2 / (keys / 5)).sum())
    assert chi_squared < 18.5  # 4 degrees of freedom, p = 0.001; the keys are fixed
    gaps = (images[:, 1] - images[:, 0]) % size
    expected = size / 2
    assert abs(gaps.mean() - expected) < 4 * size / np.sqrt(12 * keys) + 0.02 * size


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r"size: 0 must lie in 1..2\^62"):
        Permutation(0, "test")
    with pytest.raises(ValueError, match=r"places: must lie in 0..4"):
        Permutation(5, "test")(np.array([5]))
    assert Permutation(5, "test")(np.array([], dtype=np.int64)).size == 0
