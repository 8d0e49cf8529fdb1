"""Intervals against hand-written formulas, and what happens to degenerate samples."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from lt2theory.report.statistics import (
    mean_interval,
    median_steps,
    seed_summary,
    sooner_p_value,
    success_interval,
    success_p_value,
    success_table,
)


def clopper_pearson(successes, trials, confidence):
    tail = (1 - confidence) / 2
    low = 0.0 if successes == 0 else stats.beta.ppf(tail, successes, trials - successes + 1)
    full = successes == trials
    high = 1.0 if full else stats.beta.ppf(1 - tail, successes + 1, trials - successes)
    return low, high


@pytest.mark.parametrize("trials", [1, 2, 5, 7, 31])
def test_exact_interval_is_clopper_pearson(trials):
    for successes in range(trials + 1):
        got = success_interval(successes, trials, confidence=0.9)
        want = clopper_pearson(successes, trials, 0.9)
        assert (got.low, got.high) == pytest.approx(want, abs=1e-9)
        assert got.value == successes / trials
        assert got.n == trials


def test_five_of_five_seeds_leave_a_rate_of_478_possible():
    assert success_interval(5, 5).low == pytest.approx(0.478, abs=5e-4)
    assert success_interval(5, 5).high == 1.0


def test_wilson_interval_matches_its_formula():
    successes, trials, z = 3, 7, stats.norm.ppf(0.975)
    p = successes / trials
    centre = (p + z**2 / (2 * trials)) / (1 + z**2 / trials)
    half = z / (1 + z**2 / trials) * np.sqrt(p * (1 - p) / trials + z**2 / (4 * trials**2))
    got = success_interval(successes, trials, method="wilson")
    assert (got.low, got.high) == pytest.approx((centre - half, centre + half), abs=1e-12)


@pytest.mark.parametrize(
    ("successes", "trials", "confidence", "message"),
    [
        (0, 0, 0.95, "trials is 0, allowed is 1 or more"),
        (4, 3, 0.95, r"successes is 4, allowed is 0 to trials \(3\)"),
        (-1, 3, 0.95, "successes is -1"),
        (1, 3, 1.0, "confidence is 1.0, allowed is above 0 and below 1"),
    ],
)
def test_impossible_counts_are_refused(successes, trials, confidence, message):
    with pytest.raises(ValueError, match=message):
        success_interval(successes, trials, confidence=confidence)


def test_t_interval_matches_scipy_and_is_cut_at_the_bounds():
    sample = [0.91, 0.97, 0.99, 0.80, 0.95]
    got = mean_interval(sample)
    want = stats.t.interval(0.95, 4, loc=np.mean(sample), scale=stats.sem(sample))
    assert (got.low, got.high) == pytest.approx(want, abs=1e-12)
    assert want[1] > 1
    assert mean_interval(sample, bounds=(0.0, 1.0)).high == 1.0
    assert mean_interval(sample, bounds=(0.0, 1.0)).low == pytest.approx(want[0])


def test_t_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(0)
    inside = 0
    for sample in rng.normal(3.0, 2.0, size=(2000, 5)):
        interval = mean_interval(sample, confidence=0.8)
        inside += interval.low <= 3.0 <= interval.high
    # Four standard errors of a proportion of .8 over 2,000 draws.
    assert abs(inside / 2000 - 0.8) < 4 * np.sqrt(0.16 / 2000)


def test_percentile_interval_agrees_with_scipy_bootstrap():
    sample = np.random.default_rng(1).normal(size=40)
    got = mean_interval(sample, method="percentile", rng=np.random.default_rng(2))
    want = stats.bootstrap(
        (sample,), np.mean, n_resamples=10_000, method="percentile", rng=np.random.default_rng(3)
    ).confidence_interval
    assert (got.low, got.high) == pytest.approx((want.low, want.high), abs=0.02)


def test_percentile_needs_a_generator():
    with pytest.raises(ValueError, match="rng is None"):
        mean_interval([0.1, 0.2], method="percentile")


@pytest.mark.parametrize("method", ["t", "percentile"])
def test_equal_seeds_and_a_single_seed_say_so(method):
    equal = mean_interval([1.0] * 5, method=method)
    assert (equal.value, equal.low, equal.high, equal.method) == (1.0, 1.0, 1.0, "equal")
    single = mean_interval([0.7], method=method)
    assert single.method == "single"
    assert np.isnan([single.low, single.high]).all()


@pytest.mark.parametrize("values", [[], [0.5, np.nan], [np.inf]])
def test_missing_values_are_refused(values):
    with pytest.raises(ValueError, match="1 or more finite numbers"):
        mean_interval(values)


def test_median_counts_censored_runs_as_longest():
    odd = median_steps([100, 900, 900, 300, 200], [True, False, False, True, True])
    assert odd.value == 300
    assert (odd.low, odd.high) == (100, np.inf)
    assert odd.confidence == pytest.approx(1 - 2 / 32)
    assert median_steps([100, 900, 900], [True, False, False]).value == np.inf
    assert median_steps([100, 300, 900, 900], [True, True, False, False]).value == np.inf
    assert median_steps([100, 300, 500, 900], [True, True, True, False]).value == 400


def test_median_interval_covers_at_least_as_often_as_it_says():
    rng = np.random.default_rng(4)
    for n in (5, 12, 21):
        samples = rng.exponential(size=(1500, n))
        intervals = [median_steps(sample, np.ones(n, bool)) for sample in samples]
        inside = np.mean([one.low <= np.log(2) <= one.high for one in intervals])
        said = intervals[0].confidence
        assert abs(inside - said) < 4 * np.sqrt(said * (1 - said) / 1500)
        assert said >= 0.95 or n == 5


def test_median_refuses_unequal_lengths():
    with pytest.raises(ValueError, match="steps has 2 runs and solved 1"):
        median_steps([1, 2], [True])


def test_success_table_counts_runs():
    frame = pd.DataFrame(
        {
            "label": ["b", "b", "b", "a", "a", "a"],
            "seed": [0, 1, 2] * 2,
            "solved": [True, True, False, False, False, False],
            "steps": [10, 30, 99, 99, 99, 99],
        }
    )
    table = success_table(frame)
    assert table["label"].tolist() == ["b", "a"]
    assert table["successes"].tolist() == [2, 0]
    assert table["rate"].tolist() == pytest.approx([2 / 3, 0])
    assert table["low"].tolist() == pytest.approx([clopper_pearson(2, 3, 0.95)[0], 0])
    assert table["median_steps"].tolist() == [30, np.inf]


def test_a_seed_counts_once():
    frame = pd.DataFrame({"label": "a", "seed": [0, 0], "solved": True, "steps": 5, "value": 1.0})
    with pytest.raises(ValueError, match="2 rows share a key, first label='a', seed"):
        success_table(frame)
    with pytest.raises(ValueError, match="2 rows share a key"):
        seed_summary(frame, by=["label"])


def test_seed_summary_is_the_mean_interval_of_each_cell():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "label": np.repeat(["a", "b"], 6),
            "length": np.tile(np.repeat([8, 16], 3), 2),
            "seed": np.tile([0, 1, 2], 4),
            "value": rng.uniform(size=12),
        }
    )
    table = seed_summary(frame, by=["label", "length"], bounds=(0.0, 1.0))
    assert len(table) == 4
    cell = frame.query("label == 'b' and length == 8")["value"].tolist()
    row = table.query("label == 'b' and length == 8").iloc[0]
    want = mean_interval(cell, bounds=(0.0, 1.0))
    assert (row["value"], row["low"], row["high"], row["n"]) == (want.value, want.low, want.high, 3)


def test_missing_column_and_empty_table_are_named():
    with pytest.raises(ValueError, match="success table: column 'solved' is missing"):
        success_table(pd.DataFrame({"label": ["a"], "seed": [0]}))
    empty = pd.DataFrame({"label": [], "seed": [], "value": []})
    with pytest.raises(ValueError, match="seed summary: the table has 0 rows"):
        seed_summary(empty, by=["label"])


def test_fisher_p_value_of_a_clean_split():
    # 5 of 5 against 0 of 5: both extreme tables out of C(10, 5) = 252 equally likely ones.
    assert success_p_value((5, 5), (0, 5)) == pytest.approx(2 / 252)
    assert success_p_value((3, 5), (3, 5)) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="successes is 6"):
        success_p_value((6, 5), (0, 5))


def test_sooner_p_value_counts_every_deal():
    never = math.inf
    # 252 ways to deal ten seeds: two of them separate the arms.
    assert sooner_p_value(
        [1.0, 2.0, 3.0, 4.0, 5.0], [6.0, 7.0, 8.0, never, never]
    ) == pytest.approx(2 / 252)
    assert sooner_p_value([9.0] * 5, [7.0] * 5) == pytest.approx(2 / 252)
    assert sooner_p_value([never] * 3, [never] * 3) == 1.0
    # Ranks 1, 2.5 against 2.5, 4: of six deals only {1, 4} and {2.5, 2.5} are less extreme.
    assert sooner_p_value([1.0, 2.0], [2.0, 3.0]) == pytest.approx(4 / 6)
    for wrong in ([], [0.0], [math.nan]):
        with pytest.raises(ValueError, match="one or more above 0 for each arm"):
            sooner_p_value(wrong, [1.0])


def test_sooner_p_value_is_that_of_the_rank_sum_test():
    rng = np.random.default_rng(3)
    steps = rng.permutation(12).astype(float) + 1
    first, second = steps[:5], steps[5:]
    exact = stats.mannwhitneyu(first, second, method="exact").pvalue
    assert sooner_p_value(first, second) == pytest.approx(exact)
