"""The influence law against enumeration, its moments, and the numbers of theory W4 and W5."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from lt2theory.analysis import (
    distance_quantile,
    fitted_residual,
    influence_law,
    influence_mean,
    influence_std,
)


def exact_law(window: int, residual: Fraction, applications: int) -> list[Fraction]:
    """The same coefficients by rational arithmetic, one application after another."""
    law = [Fraction(1)]
    for _ in range(applications):
        longer = [Fraction(0)] * (len(law) + window - 1)
        for delta, weight in enumerate(law):
            longer[delta] += residual * weight
            for hop in range(window):
                longer[delta + hop] += (1 - residual) / window * weight
        law = longer
    return law


@pytest.mark.parametrize(("window", "applications"), [(1, 5), (2, 7), (3, 4), (5, 6), (4, 0)])
@pytest.mark.parametrize("residual", [Fraction(0), Fraction(1, 4), Fraction(19, 20), Fraction(1)])
def test_equals_rational_arithmetic(window, applications, residual):
    expected = [float(x) for x in exact_law(window, residual, applications)]
    law = influence_law(window, float(residual), applications)
    np.testing.assert_allclose(law, expected, rtol=1e-13, atol=0)


@settings(max_examples=40, deadline=None)
@given(window=st.integers(1, 40), residual=st.floats(0, 1), applications=st.integers(0, 40))
def test_moments_follow_from_the_law(window, residual, applications):
    law = influence_law(window, residual, applications)
    assert len(law) == applications * (window - 1) + 1
    assert law.sum() == pytest.approx(1, rel=1e-11)
    distance = np.arange(len(law))
    mean = influence_mean(window, residual, applications)
    variance = influence_std(window, residual, applications) ** 2
    scale = (applications * window) ** 2
    assert law @ distance == pytest.approx(mean, abs=1e-11 * scale)
    assert law @ (distance - mean) ** 2 == pytest.approx(variance, abs=1e-11 * scale)


@pytest.mark.parametrize(("applications", "expected"), [(5, 107), (25, 253), (100, 587)])
def test_w4_quantiles(applications, expected):
    assert distance_quantile(influence_law(100, 0.95, applications), 0.99) == expected


def test_w4_one_and_a_half_windows_holds_up_to_eight_applications():
    at = [int(distance_quantile(influence_law(100, 0.95, k), 0.99)) for k in range(1, 12)]
    assert (at[7], at[8]) == (147, 155)
    assert all(q <= 150 for q in at[:8])
    assert all(q > 150 for q in at[8:])


def test_w4_the_number_of_hops_is_binomial():
    """Conditioning on the hops gives the same law: a mixture of uniform sums."""
    window, residual, applications = 7, 0.8, 12
    uniform, power = np.full(window, 1 / window), np.ones(1)
    mixture = np.zeros(applications * (window - 1) + 1)
    for hops in range(applications + 1):
        mixture[: len(power)] += stats.binom.pmf(hops, applications, 1 - residual) * power
        power = np.convolve(power, uniform)
    np.testing.assert_allclose(influence_law(window, residual, applications), mixture, rtol=1e-11)


def test_w5_mean_grows_linearly_and_width_like_the_root():
    for applications in (1, 4, 16):
        assert influence_mean(9, 0, applications) == 4 * applications
        assert influence_std(9, 0, applications) == pytest.approx((applications * 80 / 12) ** 0.5)


def test_quantile_of_rows_and_extremes():
    weights = np.array([[0.25, 0.25, 0.25, 0.25], [0.0, 0.0, 3.0, 0.0]])
    assert distance_quantile(weights, 0.5).tolist() == [1, 2]
    assert distance_quantile(weights, 0).tolist() == [0, 0]
    assert distance_quantile(weights, 1).tolist() == [3, 2]


@pytest.mark.parametrize("residual", [0.0, 0.3, 0.95, 1.0])
def test_fit_recovers_the_residual(residual):
    law = 17.0 * influence_law(6, residual, 9)
    assert fitted_residual(law, 6, 9) == pytest.approx(residual, abs=1e-12)


def test_fit_is_clipped():
    assert fitted_residual(np.array([0.0, 0.0, 0.0, 1.0]), 4, 1) == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: influence_law(0, 0.5, 1), "window: 0"),
        (lambda: influence_law(2, 1.5, 1), "residual: 1.5"),
        (lambda: influence_law(2, 0.5, -1), "applications: -1"),
        (lambda: distance_quantile(np.ones(3), 1.1), "q: 1.1"),
        (lambda: distance_quantile(np.zeros(3), 0.5), "weights: .*positive sum"),
        (lambda: distance_quantile(np.array([1.0, -0.1]), 0.5), "weights: .*positive sum"),
        (lambda: fitted_residual(np.ones(3), 1, 2), "window: 1"),
        (lambda: fitted_residual(np.zeros(3), 2, 2), "weights: all zero"),
    ],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()
