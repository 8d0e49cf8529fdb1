"""Mixed-radix codes: an instance space as digits that can be counted, listed and drawn."""

from collections.abc import Sequence
from itertools import groupby

import numpy as np
from jaxtyping import Integer, UInt

from tasks.streams import Stream, smallest_unsigned


def draw(stream: Stream, radices: Sequence[int], count: int) -> UInt[np.ndarray, "count width"]:
    """Uniform digit strings.

    Args:
        stream: Where the randomness comes from.
        radices: Number of values of each digit.
        count: How many strings.

    Returns:
        One string a row, of the narrowest unsigned type that holds every digit.
    """
    digits = np.empty((count, len(radices)), dtype=smallest_unsigned(max(radices)))
    start = 0
    for radix, run in groupby(radices):
        width = len(list(run))
        digits[:, start : start + width] = stream.below(radix, count, width)
        start += width
    return digits


def from_index(
    index: Integer[np.ndarray, "count"], radices: Sequence[int]
) -> UInt[np.ndarray, "count width"]:
    """Digit strings from their place in lexicographic order.

    Args:
        index: Places, each below the product of the radices.
        radices: Number of values of each digit, the slowest first.

    Returns:
        One string a row, of the narrowest unsigned type that holds every digit.

    Example:
        >>> from_index(np.array([5]), (2, 3)).tolist()
        [[1, 2]]
    """
    digits = np.empty((index.size, len(radices)), dtype=smallest_unsigned(max(radices)))
    rest = index
    for column in range(len(radices) - 1, -1, -1):
        rest, digits[:, column] = np.divmod(rest, radices[column])
    return digits


def falling(digits: UInt[np.ndarray, "count width"], pool: int) -> UInt[np.ndarray, "count width"]:
    """Distinct values from digits with the radices pool, pool - 1, pool - 2, ...

    Digit j counts through the values that the digits before it left over, so that the digit
    strings and the ordered samples without replacement correspond one to one.

    Args:
        digits: Digit strings, digit j below pool - j.
        pool: Number of values to choose from.

    Returns:
        Distinct values below `pool` in each row.

    Example:
        >>> falling(np.array([[1, 1, 0]], dtype=np.uint8), 4).tolist()
        [[1, 2, 0]]
    """
    values = digits.astype(smallest_unsigned(pool))
    for column in range(1, values.shape[1]):
        taken = np.sort(values[:, :column], axis=1)
        for rank in range(column):
            values[:, column] += values[:, column] >= taken[:, rank]
    return values
