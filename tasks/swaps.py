"""Pointers that swap what they hold: drawing the swaps and following them."""

import numpy as np
from jaxtyping import Int64, UInt


def named_pair(
    code: UInt[np.ndarray, "*shape"], pointers: int
) -> tuple[Int64[np.ndarray, "*shape"], Int64[np.ndarray, "*shape"]]:
    """The ordered pair of different pointers behind a code below pointers * (pointers - 1).

    Args:
        code: Codes of swaps.
        pointers: Number of pointers.

    Returns:
        The first pointer of each swap and the second.
    """
    first, rest = np.divmod(code.astype(np.int64), pointers - 1)
    return first, (first + 1 + rest) % pointers


def follow(
    first: Int64[np.ndarray, "n b"], second: Int64[np.ndarray, "n b"], pointers: int
) -> tuple[Int64[np.ndarray, "n b"], Int64[np.ndarray, "pointers b"]]:
    """Carry out swaps, starting with pointer i at place i.

    Args:
        first: First pointer of each swap, time first.
        second: Second pointer of each swap.
        pointers: Number of pointers.

    Returns:
        The place that the first pointer holds right after each swap, and the place that each
        pointer holds at the end.
    """
    swaps, size = first.shape
    held = np.empty((swaps, size), dtype=np.int64)
    row = np.arange(size)
    places = np.repeat(np.arange(pointers), size)
    for t in range(swaps):
        here = first[t] * size + row
        there = second[t] * size + row
        kept = places[here]
        np.take(places, there, out=held[t], mode="clip")
        places[here] = held[t]
        places[there] = kept
    return held, places.reshape(pointers, size)


def home_chance(swaps: int, pointers: int) -> float:
    """How likely a pointer ends at its own place.

    A pointer takes part in a uniform swap with probability 2/k and then goes to each other place
    alike, so the chance of being at home decays to 1/k with the eigenvalue (k - 3)/(k - 1).

    Args:
        swaps: Number of uniform random swaps.
        pointers: k, the number of pointers.

    Returns:
        The probability `1/k + (1 - 1/k) ((k - 3)/(k - 1))^n`.
    """
    decay = ((pointers - 3) / (pointers - 1)) ** swaps
    return 1 / pointers + (1 - 1 / pointers) * decay


def unnamed_chance(swaps: int, pointers: int) -> float:
    """How likely a pointer takes part in no swap.

    Args:
        swaps: Number of uniform random swaps.
        pointers: k, the number of pointers.

    Returns:
        The probability `(1 - 2/k)^n`.
    """
    return (1 - 2 / pointers) ** swaps
