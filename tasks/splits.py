"""Disjoint splits by a keyed hash of the instance.

An instance belongs to train, eval or test by a hash of what it is, in the shares 80/10/10,
whatever the seed, the index, the supervision or the layout of the batch that holds it.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, UInt, UInt8, UInt64

from tasks.streams import Stream, mix_words

SPLITS = ("train", "eval", "test")
TENTHS = {"train": 8, "eval": 1, "test": 1}

_BLOCK_ROWS = 1 << 16
_BLOCK_BYTES = 1 << 25


class InstanceHash:
    """A 64-bit hash of instance codes: multilinear over packed words, then mixed.

    Args:
        name: What the instances are of; gives the hash its key.
    """

    def __init__(self, *name: object) -> None:
        self._name = name
        self._multipliers = np.empty(0, dtype=np.uint64)

    def __call__(self, codes: UInt[np.ndarray, "count width"]) -> UInt64[np.ndarray, "count"]:
        """Hash every row.

        Args:
            codes: One instance a row.

        Returns:
            64-bit hashes.
        """
        words = _packed(codes)
        if self._multipliers.size != words.shape[1]:
            self._multipliers = Stream("split", *self._name).words(words.shape[1]) | np.uint64(1)
        mixed = np.asarray(words @ self._multipliers, dtype=np.uint64)
        # A linear hash alone would leak structure.
        mix_words(mixed)
        return mixed


def split_ids(hashes: UInt64[np.ndarray, "count"]) -> UInt8[np.ndarray, "count"]:
    """The split of each hash, as an index into `SPLITS`.

    Args:
        hashes: 64-bit instance hashes.

    Returns:
        0 for train (eight tenths), 1 for eval, 2 for test.
    """
    tenth = ((hashes >> np.uint64(32)) * np.uint64(10)) >> np.uint64(32)
    return np.asarray(np.maximum(tenth, np.uint64(7)) - np.uint64(7), dtype=np.uint8)


def draw_members(
    draw: Callable[[int], UInt[np.ndarray, "count width"]],
    hashed: InstanceHash,
    split: str,
    size: int,
) -> UInt[np.ndarray, "size width"]:
    """Draw instances until a split has given as many as asked; eval and test without repeats.

    Two instances of equal hash count as one there, which can only refuse a distinct instance (with
    a probability near 2^-64), never admit a repeated one.

    Args:
        draw: Gives so many independent instances, one a row.
        hashed: Hash of the instances.
        split: The split to draw from.
        size: How many instances.

    Returns:
        Codes of the instances, in the order in which they were drawn.
    """
    parts: list[np.ndarray] = []
    seen = np.empty(0, dtype=np.uint64)
    missing = size
    width_bytes = 8
    while missing:
        wanted = missing * 10 // TENTHS[split]
        wanted = min(wanted + wanted // 16 + 32, max(64, _BLOCK_BYTES // width_bytes))
        codes = draw(wanted)
        width_bytes = codes.shape[1] * codes.itemsize
        hashes = hashed(codes)
        keep = np.flatnonzero(split_ids(hashes) == SPLITS.index(split))
        if split != "train":
            keep = keep[_first_seen(hashes[keep], seen)]
        keep = keep[:missing]
        if split != "train":
            seen = np.concatenate([seen, hashes[keep]])
        parts.append(codes[keep])
        missing -= keep.size
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def list_members(
    decode: Callable[[np.ndarray], UInt[np.ndarray, "count width"]],
    hashed: InstanceHash,
    count: int,
) -> dict[str, UInt[np.ndarray, "members"]]:
    """Sort a whole instance space into its splits.

    Args:
        decode: Gives the codes of the instances at given places of the space.
        hashed: Hash of the instances.
        count: Size of the space.

    Returns:
        For every split the places of its instances, ascending.
    """
    ids = np.empty(count, dtype=np.uint8)
    for start in range(0, count, _BLOCK_ROWS):
        places = np.arange(start, min(start + _BLOCK_ROWS, count))
        ids[places] = split_ids(hashed(decode(places)))
    return {split: np.flatnonzero(ids == i).astype(np.uint32) for i, split in enumerate(SPLITS)}


def _first_seen(
    hashes: UInt64[np.ndarray, "count"], seen: UInt64[np.ndarray, "earlier"]
) -> Bool[np.ndarray, "count"]:
    """Marks the rows whose hash occurs neither earlier in the batch nor in `seen`."""
    fresh = np.zeros(hashes.size, dtype=bool)
    fresh[np.unique(hashes, return_index=True)[1]] = True
    return fresh & ~np.isin(hashes, seen)


def _packed(codes: UInt[np.ndarray, "count width"]) -> UInt64[np.ndarray, "count words"]:
    """Rows as 64-bit words, padded with zeros."""
    per_word = 8 // codes.itemsize
    count, width = codes.shape
    if width % per_word:
        padded = np.zeros((count, -(-width // per_word) * per_word), dtype=codes.dtype)
        padded[:, :width] = codes
        codes = padded
    return np.ascontiguousarray(codes).view(np.uint64)
