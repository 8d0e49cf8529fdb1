"""Summaries over seeds, the unit of `lt2theory.report.intervals`, and tests between arms."""

from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pandas as pd
from scipy import stats

from lt2theory.report.frames import numbers, require_columns, require_one_row_each
from lt2theory.report.intervals import (
    SuccessMethod,
    mean_interval,
    median_steps,
    success_interval,
)


def success_table(
    frame: pd.DataFrame,
    *,
    by: Sequence[str] = ("label",),
    confidence: float = 0.95,
    method: SuccessMethod = "exact",
) -> pd.DataFrame:
    """Success rate and steps to solve of every arm.

    Args:
        frame: One row a run: the columns of `by`, `seed`, `solved` (bool) and `steps`.
        by: Columns that name an arm.
        confidence: Coverage of both intervals.
        method: See `success_interval`.

    Returns:
        One row an arm, in order of first occurrence: `by`, `successes`, `n`, `rate`, `low`, `high`,
        `median_steps`, `steps_low`, `steps_high`, `steps_confidence`.
    """
    keys = list(by)
    require_columns(frame, [*keys, "seed", "solved", "steps"], "success table")
    require_one_row_each(frame, [*keys, "seed"], "success table")
    rows: list[dict[str, object]] = []
    for name, runs in frame.groupby(keys, sort=False):
        solved = runs["solved"].to_numpy(dtype=bool)
        rate = success_interval(int(solved.sum()), len(runs), confidence=confidence, method=method)
        steps = median_steps(numbers(runs, "steps"), solved, confidence=confidence)
        rows.append(
            {
                **dict(zip(keys, name, strict=True)),
                "successes": int(solved.sum()),
                "n": rate.n,
                "rate": rate.value,
                "low": rate.low,
                "high": rate.high,
                "median_steps": steps.value,
                "steps_low": steps.low,
                "steps_high": steps.high,
                "steps_confidence": steps.confidence,
            }
        )
    return pd.DataFrame(rows)


def seed_summary(
    frame: pd.DataFrame,
    *,
    by: Sequence[str],
    confidence: float = 0.95,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> pd.DataFrame:
    """Mean over seeds of every cell, with its t interval.

    Args:
        frame: One row a seed and cell: the columns of `by`, `seed` and `value`.
        by: Columns that name a cell, for instance `("label", "length")`.
        confidence: Coverage of the interval.
        bounds: See `mean_interval`.

    Returns:
        One row a cell, in order of first occurrence: `by`, `value`, `low`, `high`, `n` (seeds),
        `method`, `confidence`.
    """
    keys = list(by)
    require_columns(frame, [*keys, "seed", "value"], "seed summary")
    require_one_row_each(frame, [*keys, "seed"], "seed summary")
    rows = [
        dict(zip(keys, name, strict=True))
        | asdict(mean_interval(numbers(cell, "value"), confidence=confidence, bounds=bounds))
        for name, cell in frame.groupby(keys, sort=False)
    ]
    return pd.DataFrame(rows)


def success_p_value(first: tuple[int, int], second: tuple[int, int]) -> float:
    """How often two arms of one common success rate would differ at least this much.

    Args:
        first: Successes and seeds of one arm.
        second: Successes and seeds of the other.

    Returns:
        Two-sided p value of Fisher's exact test (Fisher 1934).
    """
    for successes, trials in (first, second):
        success_interval(successes, trials)
    table = [[successes, trials - successes] for successes, trials in (first, second)]
    return float(stats.fisher_exact(table).pvalue)


def sooner_p_value(
    first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray
) -> float:
    """How often two arms that take equally long would differ at least this much in their ranks.

    Args:
        first: Steps to solve of one arm's seeds, `inf` where a seed did not solve.
        second: Steps to solve of the other's.

    Returns:
        Two-sided p value of the rank-sum test (Wilcoxon 1945), exact with ties: over every way to
        deal the seeds into the two arms up to 20,000 of them, over 20,000 random ones beyond.

    Raises:
        ValueError: An arm has no seed, or a number that is not above zero.
    """
    both = np.asarray([*first, *second], dtype=np.float64)
    if not len(first) or not len(second) or not (both > 0).all():
        raise ValueError(f"steps are {both.tolist()}, allowed: one or more above 0 for each arm")
    ranks = stats.rankdata(both)
    if np.ptp(ranks) == 0:
        return 1.0
    middle = len(first) * ranks.mean()
    test = stats.permutation_test(
        (ranks[: len(first)], ranks[len(first) :]),
        lambda some, _: abs(some.sum() - middle),
        permutation_type="independent",
        alternative="greater",
        vectorized=False,
        n_resamples=20_000,
        rng=np.random.default_rng(0),
    )
    return float(test.pvalue)
