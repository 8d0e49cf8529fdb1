"""Intervals over seeds: the seed is the unit, never the evaluation instance.

A run's own Wilson interval says how well its accuracy is known. The intervals here say what another
seed would do, so they count runs: five successes in five seeds still leave a success rate of .478
possible.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats

SuccessMethod = Literal["exact", "wilson"]
MeanMethod = Literal["t", "percentile"]


@dataclass(frozen=True)
class Interval:
    """An estimate over seeds with its interval.

    Attributes:
        value: The estimate.
        low: Lower end, NaN where there is none.
        high: Upper end, NaN where there is none.
        n: Seeds behind it.
        method: How the ends were found. `single` (one seed, no interval) and `equal` (every seed
            gave the same value, so the spread is unknown rather than zero) are to be said aloud.
        confidence: Coverage of the interval, as attained where it can differ from what was asked.
    """

    value: float
    low: float
    high: float
    n: int
    method: str
    confidence: float


def success_interval(
    successes: int,
    trials: int,
    *,
    confidence: float = 0.95,
    method: SuccessMethod = "exact",
) -> Interval:
    """Success rate over seeds, by Clopper and Pearson (`exact`) or Wilson.

    Args:
        successes: Seeds that solved the task.
        trials: Seeds tried, at least 1.
        confidence: Coverage, in (0, 1).
        method: `exact` never covers less than asked; `wilson` is shorter and covers about as asked.

    Returns:
        The rate with its interval. Source: Clopper and Pearson 1934; Wilson 1927.

    Raises:
        ValueError: A count or the confidence is out of range.
    """
    _check_confidence(confidence)
    if trials < 1:
        raise ValueError(f"trials is {trials}, allowed is 1 or more")
    if not 0 <= successes <= trials:
        raise ValueError(f"successes is {successes}, allowed is 0 to trials ({trials})")
    test = stats.binomtest(int(successes), int(trials))
    ends = test.proportion_ci(confidence_level=confidence, method=method)
    rate = successes / trials
    return Interval(rate, float(ends.low), float(ends.high), trials, method, confidence)


def mean_interval(
    values: Sequence[float] | np.ndarray,
    *,
    confidence: float = 0.95,
    method: MeanMethod = "t",
    bounds: tuple[float, float] = (-np.inf, np.inf),
    rng: np.random.Generator | None = None,
) -> Interval:
    """Mean over seeds with a Student t or a percentile-bootstrap interval.

    BCa is left out on purpose: on equal samples, such as five seeds at 100 %, it is undefined.

    Args:
        values: One number a seed, all finite.
        confidence: Coverage, in (0, 1).
        method: `t` (right for few seeds of roughly normal spread) or `percentile` (10,000
            resamples; too short below about ten seeds).
        bounds: Ends of the quantity's range, at which the interval is cut: (0, 1) for an accuracy.
        rng: Source of the resamples, needed for `percentile`.

    Returns:
        The mean with its interval; see `Interval.method` for one seed and for equal seeds.

    Raises:
        ValueError: No value, a value that is not finite, or `percentile` without `rng`.
    """
    _check_confidence(confidence)
    sample = np.asarray(values, dtype=np.float64)
    if sample.size == 0 or not np.isfinite(sample).all():
        raise ValueError(f"values is {sample.tolist()}, allowed are 1 or more finite numbers")
    mean, n = float(sample.mean()), int(sample.size)
    if n == 1:
        return Interval(mean, np.nan, np.nan, 1, "single", confidence)
    if np.ptp(sample) == 0:
        return Interval(
            float(sample[0]), float(sample[0]), float(sample[0]), n, "equal", confidence
        )
    if method == "t":
        half = stats.t.ppf((1 + confidence) / 2, n - 1) * sample.std(ddof=1) / np.sqrt(n)
        low, high = mean - half, mean + half
    elif rng is None:
        raise ValueError("rng is None, method 'percentile' needs a numpy Generator")
    else:
        means = rng.choice(sample, size=(10_000, n)).mean(axis=1)
        low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    low, high = max(float(low), bounds[0]), min(float(high), bounds[1])
    return Interval(mean, low, high, n, method, confidence)


def median_steps(
    steps: Sequence[float] | Sequence[int] | np.ndarray,
    solved: Sequence[bool] | np.ndarray,
    *,
    confidence: float = 0.95,
) -> Interval:
    """Median number of steps to solve, with runs that never solved as longer than every other.

    The interval runs between order statistics, so it assumes no distribution; with few seeds the
    widest one (shortest to longest run) may cover less than asked, and `confidence` says how much.

    Args:
        steps: Steps to solve, or steps tried where the run did not solve.
        solved: Whether each run solved.
        confidence: Coverage wanted, in (0, 1).

    Returns:
        The median and its interval; infinite where censored runs decide it.

    Raises:
        ValueError: No run, or different numbers of steps and outcomes.
    """
    _check_confidence(confidence)
    reached = np.asarray(solved, dtype=bool)
    times = np.asarray(steps, dtype=np.float64)
    if times.size == 0 or times.shape != reached.shape:
        raise ValueError(
            f"steps has {times.size} runs and solved {reached.size}, allowed: equal, > 0"
        )
    ordered = np.sort(np.where(reached, times, np.inf))
    n = ordered.size
    median = float((ordered[(n - 1) // 2] + ordered[n // 2]) / 2)
    if n == 1:
        return Interval(median, np.nan, np.nan, 1, "single", confidence)
    # Ranks r and n + 1 - r miss the median with probability 2 P(Binomial(n, 1/2) < r).
    rank = max(1, int(stats.binom.ppf((1 - confidence) / 2, n, 0.5)))
    attained = float(1 - 2 * stats.binom.cdf(rank - 1, n, 0.5))
    low, high = float(ordered[rank - 1]), float(ordered[n - rank])
    return Interval(median, low, high, n, "order statistics", attained)


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is {confidence}, allowed is above 0 and below 1")
