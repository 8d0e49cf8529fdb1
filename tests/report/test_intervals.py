"""Intervals against hand-written formulas, and what happens to degenerate samples."""

import numpy as np
import pytest
from scipy import stats

from lt2theory.report.intervals import mean_interval, median_steps, success_interval


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
