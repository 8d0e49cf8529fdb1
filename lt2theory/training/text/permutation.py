"""Shuffles that are computed, not stored: a keyed permutation of 0 .. size - 1, place by place."""

import numpy as np
from jaxtyping import Int64, UInt64

from tasks.streams import Stream, mix_words

_ROUNDS = 8
"""Even, so that the halves end as wide as they began. Four suffice against chance patterns of large
sizes (Luby and Rackoff 1988); the halves of small ones hold few bits."""


class Permutation:
    """A Feistel network over the smallest power of two, walked until it comes back inside.

    Walking along a cycle of a permutation to its next element below `size` is a permutation of
    those elements (Black and Rogaway 2002, "Ciphers with arbitrary finite domains"); it takes
    fewer than two steps on average.

    Args:
        size: How many places, in 1 .. 2^62.
        *name: What the permutation is for; permutations of different names are independent.

    Raises:
        ValueError: `size` is out of range.

    Example:
        >>> shuffle = Permutation(5, "example", 0)
        >>> sorted(shuffle(np.arange(5)).tolist())
        [0, 1, 2, 3, 4]
    """

    def __init__(self, size: int, *name: object) -> None:
        if not 1 <= size <= 1 << 62:
            raise ValueError(f"size: {size} must lie in 1..2^62")
        bits = max(1, (size - 1).bit_length())
        self.size = size
        self._widths = bits // 2, bits - bits // 2
        self._keys = Stream("permutation", *name).words(_ROUNDS)

    def __call__(self, places: Int64[np.ndarray, "n"]) -> Int64[np.ndarray, "n"]:
        """Where places go.

        Args:
            places: Numbers in 0 .. size - 1.

        Returns:
            Their images; all places together give every number once.

        Raises:
            ValueError: A place is out of range.
        """
        if places.size and not 0 <= places.min() <= places.max() < self.size:
            raise ValueError(f"places: must lie in 0..{self.size - 1}")
        values = self._once(places.astype(np.uint64))
        limit = np.uint64(self.size)
        while (outside := values >= limit).any():
            values[outside] = self._once(values[outside])
        return values.astype(np.int64)

    def _once(self, values: UInt64[np.ndarray, "n"]) -> UInt64[np.ndarray, "n"]:
        """One pass of the network over the power of two."""
        width, other = self._widths
        right = values & np.uint64((1 << other) - 1)
        left = values >> np.uint64(other)
        for i in range(_ROUNDS):
            scrambled = right ^ self._keys[i : i + 1]
            mix_words(scrambled)
            left, right = right, (left + scrambled) & np.uint64((1 << width) - 1)
            width, other = other, width
        return left << np.uint64(other) | right
