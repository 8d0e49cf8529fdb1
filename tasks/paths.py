"""Paths of steps up and down between 0 and a height: counted, listed, drawn uniformly.

They are the shapes of bracket words and of binary trees. A path starts at 0 and is named by
(steps, end, height); time goes first in arrays, as scans do.
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float64, Integer

from tasks.streams import Stream


class Ways(NamedTuple):
    """Numbers of ways to an end, scaled so that each row's largest is 1.

    Attributes:
        rows: Ways from each height with so many steps to go.
        logs: Natural logarithm of each row's scale.
    """

    rows: Float64[np.ndarray, "times heights"]
    logs: Float64[np.ndarray, "times"]


@lru_cache(maxsize=256)
def count(steps: int, end: int, height: int) -> int:
    """How many paths there are.

    Args:
        steps: Number of steps.
        end: Where they end.
        height: Largest height allowed.

    Returns:
        An exact integer.

    Example:
        >>> [count(2 * n, 0, n) for n in range(6)]  # the Catalan numbers
        [1, 1, 2, 5, 14, 42]
    """
    row = [int(h == end) for h in range(height + 1)]
    for _ in range(steps):
        row = _longer(row)
    return row[0]


def draw(
    stream: Stream, steps: int, end: int, height: int, size: int
) -> Bool[np.ndarray, "steps size"]:
    """Independent uniform paths, up to 2^-31 in every step's probability.

    Args:
        stream: Where the randomness comes from.
        steps: Number of steps.
        end: Where they end.
        height: Largest height allowed.
        size: How many paths.

    Returns:
        True for a step up.
    """
    thresholds = _thresholds(steps, end, height)
    words = stream.words(-(-steps * size // 2)).view(np.uint32)[: steps * size]
    # 31 bits, so that a chance of 1 has a threshold of the same type.
    words = (words >> np.uint32(1)).reshape(steps, size)
    ups = np.empty((steps, size), dtype=bool)
    at = np.zeros(size, dtype=np.int64)
    for t in range(steps):
        np.less(words[t], thresholds[steps - t][at], out=ups[t])
        at += np.where(ups[t], 1, -1)
    return ups


def listed(
    places: Integer[np.ndarray, "size"], steps: int, end: int, height: int
) -> Bool[np.ndarray, "steps size"]:
    """Paths from their place in lexicographic order, steps up first.

    Args:
        places: Places below `count`, which must fit in 63 bits.
        steps: Number of steps.
        end: Where they end.
        height: Largest height allowed.

    Returns:
        True for a step up.
    """
    rows = [[int(h == end) for h in range(height + 1)]]
    for _ in range(steps - 1):
        rows.append(_longer(rows[-1]))
    exact = np.array([(*row, 0) for row in rows], dtype=np.int64)
    rest, at = places.astype(np.int64), np.zeros(places.size, dtype=np.int64)
    ups = np.empty((steps, places.size), dtype=bool)
    for t in range(steps):
        # The column after the last is all zeros: no way leads above the height.
        above = exact[steps - t - 1][at + 1]
        ups[t] = rest < above
        rest -= np.where(ups[t], 0, above)
        at += 2 * ups[t] - 1
    return ups


@lru_cache(maxsize=64)
def ways(steps: int, end: int, height: int) -> Ways:
    """Ways to an end by steps to go and present height, in floating point.

    Args:
        steps: Most steps to go.
        end: Where they end.
        height: Largest height allowed.

    Returns:
        The scaled numbers.
    """
    rows = np.zeros((steps + 1, height + 1))
    logs = np.zeros(steps + 1)
    rows[0, end] = 1
    for t in range(steps):
        rows[t + 1, :-1] += rows[t, 1:]
        rows[t + 1, 1:] += rows[t, :-1]
        largest = rows[t + 1].max()
        rows[t + 1] /= largest
        logs[t + 1] = logs[t] + np.log(largest)
    return Ways(rows, logs)


def occupancy(steps: int, end: int, height: int) -> Float64[np.ndarray, "times heights"]:
    """Where a uniform path is after each number of steps.

    Args:
        steps: Number of steps.
        end: Where they end.
        height: Largest height allowed.

    Returns:
        A distribution over heights for each time.
    """
    chances = ways(steps, 0, height).rows * ways(steps, end, height).rows[::-1]
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def _longer(row: list[int]) -> list[int]:
    """Ways from each height with one step more to go."""
    padded = [0, *row, 0]
    return [padded[h] + padded[h + 2] for h in range(len(row))]


@lru_cache(maxsize=64)
def _thresholds(steps: int, end: int, height: int) -> list[np.ndarray]:
    """For each number of steps to go, 2^31 times the chance of a step up from each height."""
    rows = ways(steps, end, height).rows
    ends = np.zeros((steps + 1, 1))
    up, down = np.hstack([rows[:, 1:], ends]), np.hstack([ends, rows[:, :-1]])
    both = up + down
    chance = np.divide(up, both, out=np.zeros_like(both), where=both > 0)
    scaled = np.rint(chance * 2.0**31).astype(np.uint32)
    return [np.empty(0, dtype=np.uint32), *scaled[:-1]]
