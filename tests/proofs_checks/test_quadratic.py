"""The quadratic field against floating point, and its ranks."""

import random

import numpy as np
import pytest

from proofs_checks.exact import random_rational
from proofs_checks.quadratic import Surds, surd_factor, surds, unit_matrix


def _random(rng: random.Random, root: int, rows: int, width: int) -> Surds:
    parts = [[[random_rational(rng) for _ in range(width)] for _ in range(rows)] for _ in range(2)]
    return surds(root, *parts)


def _floats(matrix: Surds) -> np.ndarray:
    parts = [
        np.array([float(x.p) / float(x.q) for x in part.entries()]).reshape(part.nrows(), -1)
        for part in (matrix.a, matrix.b)
    ]
    return parts[0] + parts[1] * matrix.root**0.5


@pytest.mark.parametrize("root", [3, 5])
def test_products_agree_with_floats(root: int) -> None:
    rng = random.Random(root)
    left, right = _random(rng, root, 3, 4), _random(rng, root, 4, 2)
    np.testing.assert_allclose(_floats(left @ right), _floats(left) @ _floats(right), rtol=1e-12)
    np.testing.assert_allclose(
        _floats(left.times(2, -3)), _floats(left) * (2 - 3 * root**0.5), rtol=1e-12
    )


def test_rank_is_over_the_field() -> None:
    # Independent over the rationals, dependent over the field: (1, sqrt 5) and (sqrt 5, 5).
    assert surds(5, [[1, 0], [0, 5]], [[0, 1], [1, 0]]).rank() == 1
    assert unit_matrix(5, 3).rank() == 3


def test_reflection_is_an_involution_that_negates_its_key() -> None:
    key = surds(5, [[2], [1], [-1]], [[0], [1], [1]])
    reflection = surd_factor(key)
    assert reflection @ reflection == unit_matrix(5, 3)
    assert reflection @ key == key.times(-1)
    assert (unit_matrix(5, 3) - reflection).rank() == 1
