"""Intervals of what was measured on documents: they are drawn again, not their tokens.

The tokens of a document depend on one another, so that an interval over tokens is far too narrow.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Shaped

from lt2theory.training.evaluation import wilson

RESAMPLES = 2000


@dataclass(frozen=True)
class Estimate:
    """A number with its 95 % interval.

    Attributes:
        value: The number.
        low: Lower end; NaN where one unit alone was measured.
        high: Upper end; NaN likewise.
        n: Units behind it.
    """

    value: float
    low: float
    high: float
    n: int


def ratio_interval(
    sums: Shaped[np.ndarray, " documents"],
    sizes: Shaped[np.ndarray, " documents"],
    *,
    seed: int = 0,
) -> Estimate:
    """Sum over sum, such as nats over tokens, with a percentile bootstrap over documents.

    Args:
        sums: What is added up, a document (Efron 1979; percentile, `RESAMPLES` draws).
        sizes: What it is divided by, a document; positive.
        seed: Seed of the draws.

    Returns:
        The ratio of the sums with its interval.

    Raises:
        ValueError: There is no document, one has no size, or the two differ in length.
    """
    if len(sums) != len(sizes) or not len(sums) or not (sizes > 0).all():
        raise ValueError(
            f"sizes: {len(sizes)} of {len(sums)} documents are not allowed (must be as many, at "
            "least one, all positive)"
        )
    value, n = float(sums.sum() / sizes.sum()), len(sums)
    if n == 1:
        return Estimate(value, np.nan, np.nan, 1)
    drawn = document_draws(n, seed)
    ratios = (drawn @ sums) / (drawn @ sizes)
    low, high = np.quantile(ratios, (0.025, 0.975))
    return Estimate(value, float(low), float(high), n)


def mean_interval(values: Shaped[np.ndarray, " n"], *, seed: int = 0) -> Estimate:
    """Mean over units with a percentile bootstrap.

    Args:
        values: One a unit.
        seed: Seed of the draws.

    Returns:
        The mean with its interval.

    Raises:
        ValueError: There is none.
    """
    return ratio_interval(values.astype(np.float64), np.ones(len(values)), seed=seed)


def share_interval(right: Shaped[np.ndarray, " n"]) -> Estimate:
    """Mean of shares or of right-or-wrong answers, with Wilson's interval.

    Args:
        right: One number in [0, 1] an instance.

    Returns:
        The mean with its interval; it is not degenerate at 0 and 1, as a bootstrap would be.
    """
    mean = float(right.mean())
    ends = wilson(mean, len(right))
    return Estimate(mean, ends.low, ends.high, len(right))


def document_draws(n: int, seed: int) -> Float[np.ndarray, "resamples n"]:
    """How often a bootstrap draws each document, the same for everything that was measured on them.

    Args:
        n: Documents.
        seed: Seed of the draws.

    Returns:
        Counts of `RESAMPLES` draws of n documents.
    """
    rng = np.random.Generator(np.random.Philox(seed))
    drawn: np.ndarray = rng.multinomial(n, np.full(n, 1 / n), size=RESAMPLES)
    return drawn.astype(np.float64)
