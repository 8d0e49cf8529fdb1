"""Chances that more than one task's floors need."""

from functools import lru_cache

import numpy as np
from jaxtyping import Float64

_NEGLIGIBLE = 1e-14


@lru_cache(maxsize=1024)
def most_frequent(draws: int, kinds: int) -> float:
    """Expected share of the most frequent kind among independent uniform draws.

    It is what knowing the multiset of answers, and nothing of their order, is worth.

    Args:
        draws: How many draws, at least 1.
        kinds: Different kinds, equally likely.

    Returns:
        E[largest count] / draws, exact up to rounding.

    Example:
        >>> most_frequent(2, 4)  # two draws: equal with chance 1/4
        0.625
    """
    # Counts are independent Poisson variables, given that their sum is `draws`.
    counts = np.arange(draws + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(counts[1:]))])
    mean = draws / kinds
    one = np.exp(counts * np.log(mean) - logs - mean)
    total = np.exp(draws * np.log(draws) - logs[-1] - draws)
    expected = 0.0
    for top in range(draws):
        above = 1 - _power(np.where(counts <= top, one, 0.0), kinds)[-1] / total
        if above < _NEGLIGIBLE:
            break
        expected += above
    return float(round(expected / draws, 12))


def _power(chances: Float64[np.ndarray, "n"], times: int) -> Float64[np.ndarray, "n"]:
    """The distribution of a sum of independent variables, cut at the length."""
    result = np.zeros_like(chances)
    result[0] = 1
    while times:
        if times % 2:
            result = np.convolve(result, chances)[: chances.size]
        chances = np.convolve(chances, chances)[: chances.size]
        times //= 2
    return result
