"""Exact rational matrices for the checks, on python-flint.

Vectors and matrices are given as nested sequences of integers or `(numerator, denominator)` pairs
or `fmpq`; every result is exact.
"""

import random
from collections.abc import Sequence

from flint import fmpq, fmpq_mat

Rational = int | tuple[int, int] | fmpq


def rational(value: Rational) -> fmpq:
    """An exact number.

    Args:
        value: Integer, pair, or a number that is exact already.

    Returns:
        The number.
    """
    return fmpq(*value) if isinstance(value, tuple) else fmpq(value)


def matrix(rows: Sequence[Sequence[Rational]]) -> fmpq_mat:
    """An exact matrix.

    Args:
        rows: Its rows.

    Returns:
        The matrix.
    """
    width = len(rows[0]) if rows else 0
    return fmpq_mat(len(rows), width, [rational(x) for row in rows for x in row])


def column(entries: Sequence[Rational]) -> fmpq_mat:
    """A column vector.

    Args:
        entries: Its entries.

    Returns:
        A matrix of one column.
    """
    return matrix([[x] for x in entries])


def identity(size: int) -> fmpq_mat:
    """The identity.

    Args:
        size: Rows.

    Returns:
        The matrix.
    """
    return diagonal([1] * size)


def diagonal(entries: Sequence[Rational]) -> fmpq_mat:
    """A diagonal matrix.

    Args:
        entries: Its diagonal.

    Returns:
        The matrix.
    """
    size = len(entries)
    return matrix([[entries[i] if i == j else 0 for j in range(size)] for i in range(size)])


def factor(key: fmpq_mat, beta: Rational, decay: fmpq_mat | None, *, order: str) -> fmpq_mat:
    """One transition: `(I - beta k k^T) D` (decay first) or `D (I - beta k k^T)` (erase first).

    Args:
        key: Column vector k, of any length.
        beta: Erase strength.
        decay: Diagonal matrix D, or None for the identity.
        order: `decay_first` or `erase_first`.

    Returns:
        The transition.
    """
    erase = identity(key.nrows()) - key * key.transpose() * rational(beta)
    if decay is None:
        return erase
    return erase * decay if order == "decay_first" else decay * erase


def product(factors: Sequence[fmpq_mat]) -> fmpq_mat:
    """Compose transitions, the later ones on the left.

    Args:
        factors: In the order in which they act; at least one.

    Returns:
        Their product.
    """
    total = factors[0]
    for later in factors[1:]:
        total = later * total
    return total


def columns(vectors: Sequence[fmpq_mat]) -> fmpq_mat:
    """Put column vectors side by side.

    Args:
        vectors: At least one.

    Returns:
        A matrix with one column each.
    """
    height = vectors[0].nrows()
    return matrix([[vector[i, 0] for vector in vectors] for i in range(height)])


def kronecker(outer: fmpq_mat, inner: fmpq_mat) -> fmpq_mat:
    """The Kronecker product of two square matrices.

    Args:
        outer: Its entries become blocks.
        inner: What every block is a multiple of.

    Returns:
        A square matrix of the product of the sizes.
    """
    m, n = outer.nrows(), inner.nrows()
    entries = [
        outer[i // n, j // n] * inner[i % n, j % n] for i in range(m * n) for j in range(m * n)
    ]
    return fmpq_mat(m * n, m * n, entries)


def random_rational(rng: random.Random, low: int = -3, high: int = 3, most: int = 5) -> fmpq:
    """A random small fraction.

    Args:
        rng: Source of randomness.
        low: Least numerator over one.
        high: Greatest.
        most: Largest denominator.

    Returns:
        A number in `[low, high]`.
    """
    denominator = rng.randint(1, most)
    return fmpq(rng.randint(low * denominator, high * denominator), denominator)


def random_column(rng: random.Random, size: int) -> fmpq_mat:
    """A random vector that is not zero.

    Args:
        rng: Source of randomness.
        size: Entries.

    Returns:
        A column.
    """
    while True:
        vector = column([random_rational(rng) for _ in range(size)])
        if any(vector[i, 0] != 0 for i in range(size)):
            return vector
