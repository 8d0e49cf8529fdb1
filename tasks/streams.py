"""Counter-based random streams: which numbers a batch gets depends on its name alone.

A stream is named by a tuple such as (task, version, knobs, stage, split, seed, index). BLAKE2 turns
the name's JSON text into a Philox key, so streams with different names are independent, any one of
them can be opened at random, and nothing depends on the process, on earlier draws or on the hash
seed of the interpreter. Only the raw words of Philox are used, which NumPy guarantees across
versions; the distributions below are integer arithmetic of our own.
"""

import hashlib
import json
import math

import numpy as np
from jaxtyping import Float64, UInt, UInt64

_HALF_WORD = np.uint64(32)
# Values handled at once, so that the wide intermediate arrays stay in the cache.
_BLOCK = 1 << 14


def smallest_unsigned(bound: int) -> type[np.unsignedinteger]:
    """The narrowest unsigned type that holds 0 .. bound - 1.

    Args:
        bound: One more than the largest value, at most 2^32.

    Returns:
        A NumPy scalar type.
    """
    if bound <= 1 << 8:
        return np.uint8
    return np.uint16 if bound <= 1 << 16 else np.uint32


def mix_words(words: UInt64[np.ndarray, "count"]) -> None:
    """Make every bit of a word depend on all its bits: the finaliser of MurmurHash3 (Appleby).

    Args:
        words: Mixed in place; different words stay different.
    """
    words ^= words >> np.uint64(33)
    words *= np.uint64(0xFF51AFD7ED558CCD)
    words ^= words >> np.uint64(33)
    words *= np.uint64(0xC4CEB9FE1A85EC53)
    words ^= words >> np.uint64(33)


class Stream:
    """Random words from the Philox stream of a given name.

    Args:
        name: What the numbers are for: anything that JSON can write.

    Example:
        >>> stream = Stream("parity", 1, {"stage": 16}, "train", 0, 7)
        >>> again = Stream("parity", 1, {"stage": 16}, "train", 0, 7)
        >>> bool((stream.words(4) == again.words(4)).all())
        True
    """

    def __init__(self, *name: object) -> None:
        text = json.dumps(name, separators=(",", ":"), sort_keys=True)
        digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
        self._philox = np.random.Philox(key=int.from_bytes(digest, "little"))

    def words(self, count: int) -> UInt64[np.ndarray, "count"]:
        """The next raw words.

        Args:
            count: How many 64-bit words.

        Returns:
            Uniform 64-bit words.
        """
        return np.asarray(self._philox.random_raw(count), dtype=np.uint64)

    def below(self, bound: int, rows: int, columns: int) -> UInt[np.ndarray, "rows columns"]:
        """Independent uniform integers in 0 .. bound - 1.

        Powers of two up to 256 are exact; otherwise 32 random bits are scaled, so that a
        probability deviates from 1/bound by at most 2^-32.

        Args:
            bound: One more than the largest value, at most 2^32.
            rows: Rows of the answer.
            columns: Columns of the answer.

        Returns:
            Integers of the narrowest unsigned type.
        """
        total = rows * columns
        if bound == 2:
            octets = self.words(-(-total // 64)).view(np.uint8)
            return np.unpackbits(octets, count=total).reshape(rows, columns)
        if bound <= 256 and bound & (bound - 1) == 0:
            octets = self.words(-(-total // 8)).view(np.uint8)[:total]
            return (octets & np.uint8(bound - 1)).reshape(rows, columns)
        values = np.empty(total, dtype=smallest_unsigned(bound))
        for start in range(0, total, _BLOCK):
            part = values[start : start + _BLOCK]
            halves = self.words(-(-part.size // 2)).view(np.uint32)[: part.size]
            scaled = np.multiply(halves, np.uint64(bound), dtype=np.uint64)
            scaled >>= _HALF_WORD
            part[:] = scaled
        return values.reshape(rows, columns)

    def exponentials(self, rows: int, columns: int) -> Float64[np.ndarray, "rows columns"]:
        """Independent exponential variables of mean 1.

        Args:
            rows: Rows of the answer.
            columns: Columns of the answer.

        Returns:
            Positive numbers, from 53 random bits each.
        """
        fractions = (self.words(rows * columns) >> np.uint64(11)) + np.uint64(1)
        return np.asarray(-np.log(fractions * 2.0**-53)).reshape(rows, columns)

    def permutations(self, rows: int, width: int) -> UInt[np.ndarray, "rows width"]:
        """Independent uniform permutations of 0 .. width - 1, one a row.

        Each row sorts random words whose lowest bits were replaced by the position.

        Args:
            rows: How many permutations.
            width: Length of each, at most 2^20.

        Returns:
            Permutations of the narrowest unsigned type.
        """
        low = np.uint64((1 << max(width - 1, 1).bit_length()) - 1)
        words = self.words(rows * width).reshape(rows, width)
        words &= ~low
        words |= np.arange(width, dtype=np.uint64)
        words.sort(axis=1)
        words &= low
        return words.astype(smallest_unsigned(width))

    def distinct(self, pool: int, rows: int, columns: int) -> UInt[np.ndarray, "rows columns"]:
        """Ordered samples without replacement from 0 .. pool - 1, one a row.

        A sparse sample is the first `columns` distinct values of an independent sequence a little
        longer than needed; rows that ran short are drawn again, which is unbiased because running
        short does not depend on which values were drawn.

        Args:
            pool: Number of values to choose from, at most 2^20.
            rows: How many samples.
            columns: Size of each sample, at most `pool`.

        Returns:
            Distinct values in each row, of the narrowest unsigned type.
        """
        if 2 * columns > pool:
            kept = self.permutations(rows, pool)[:, :columns]
            return np.ascontiguousarray(kept)
        chosen = np.empty((rows, columns), dtype=smallest_unsigned(pool))
        step = max(1, _BLOCK // columns)
        for start in range(0, rows, step):
            part = chosen[start : start + step]
            missing = np.arange(len(part))
            while missing.size:
                part[missing], short = self._first_distinct(pool, missing.size, columns)
                missing = missing[short]
        return chosen

    def _first_distinct(
        self, pool: int, rows: int, columns: int
    ) -> tuple[UInt[np.ndarray, "rows columns"], np.ndarray]:
        """Distinct values in order of appearance, and the rows that had too few of them."""
        # Coupon collector: the mean and six deviations of the draws that `columns` values need.
        mean = -pool * math.log1p(-columns / pool)
        draws = math.ceil(mean + 6 * math.sqrt(mean - columns)) + 2
        place_bits, value_bits = draws.bit_length(), max(pool - 1, 1).bit_length()
        word = np.uint32 if place_bits + value_bits <= 32 else np.uint64
        packed: np.ndarray = self.below(pool, rows, draws).astype(word)
        packed <<= word(place_bits)
        packed |= np.arange(draws, dtype=word)
        packed.sort(axis=1)
        value = packed >> word(place_bits)
        place = packed & word((1 << place_bits) - 1)
        # Equal values stand side by side, the first drawn first; the others go to the end.
        repeated = value[:, 1:] == value[:, :-1]
        place[:, 1:][repeated] = draws
        packed = place << word(value_bits) | value
        packed.sort(axis=1)
        kept = packed[:, :columns]
        short = np.flatnonzero((kept[:, -1] >> word(value_bits)) == draws)
        values = kept & word((1 << value_bits) - 1)
        return values.astype(smallest_unsigned(pool)), short
