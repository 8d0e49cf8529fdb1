"""Exact columns, products and roots: what the claims about several loops count with."""

from collections.abc import Sequence
from typing import Any

from flint import arb, fmpq, fmpq_mat, fmpq_poly


def dot(a: fmpq_mat, b: fmpq_mat) -> fmpq:
    """Inner product of two columns.

    Args:
        a: A column.
        b: A column.

    Returns:
        The number.
    """
    return (a.transpose() * b)[0, 0]


def norm2(a: fmpq_mat) -> fmpq:
    """Square of a column's length.

    Args:
        a: A column.

    Returns:
        The number.
    """
    return dot(a, a)


def multiplied(numbers: Sequence[fmpq]) -> fmpq:
    """Product of numbers.

    Args:
        numbers: Any.

    Returns:
        Their product; 1 for none.
    """
    total = fmpq(1)
    for number in numbers:
        total = total * number
    return total


def written(vector: fmpq_mat) -> str:
    """A column as text.

    Args:
        vector: A column.

    Returns:
        Its entries in brackets.
    """
    return "(" + ", ".join(str(x) for x in vector.entries()) + ")"


def from_roots(roots: Sequence[fmpq]) -> fmpq_poly:
    """The monic polynomial with given roots.

    Args:
        roots: With multiplicity.

    Returns:
        The polynomial.
    """
    total = fmpq_poly([1])
    for root in roots:
        total = total * fmpq_poly([-root, 1])
    return total


def squared_singular_values(matrix: fmpq_mat) -> list[arb]:
    """Squares of the singular values, as balls that are certain to hold them.

    Args:
        matrix: Any exact matrix.

    Returns:
        In falling order, one for each column.
    """
    found: list[arb] = []
    roots: Any = (matrix.transpose() * matrix).charpoly().complex_roots()  # stubs lack the pairs
    for root, times in roots:
        found += [root.real] * times
    return sorted(found, key=lambda ball: -float(ball.mid()))
