"""Random keys for the statistical checks, and keys that lack one property of theirs each."""

from typing import Literal

import numpy as np

DrawnKeys = Literal["uniform", "twice", "uneven", "half_space", "long"]
"""Uniform unit keys; each key twice in a row; a channel that is three times as large before they
are normalised; each turned into a half space, so that the mean is not 0 and E k k^T as before;
keys of squared length 2."""


def draw_keys(
    rng: np.random.Generator, runs: int, length: int, width: int, drawn: DrawnKeys
) -> np.ndarray:
    """Keys of independent runs.

    Args:
        rng: Source of the numbers.
        runs: Runs.
        length: Keys a run.
        width: Channels d_k.
        drawn: What they are like.

    Returns:
        `[runs, length, 1, width]`.
    """
    keys = rng.standard_normal((runs, length, 1, width))
    if drawn == "twice":
        keys = np.repeat(keys[:, ::2], 2, axis=1)[:, :length]
    elif drawn == "uneven":
        keys[..., 0] *= 3
    elif drawn == "half_space":
        keys *= np.sign(keys[..., :1])
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    return keys * 2**0.5 if drawn == "long" else keys
