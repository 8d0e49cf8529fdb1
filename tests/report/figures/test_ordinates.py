"""Logarithmic ordinates."""

import numpy as np
import pytest

from lt2theory.report.figures.axes import new_figure
from lt2theory.report.figures.ordinates import log_ordinate


@pytest.mark.parametrize("values", [[2.76, 2.91], [0.3], [0.02, 3.0], [1e-6, 1.0]])
def test_a_logarithmic_ordinate_has_ticks_in_sight(values):
    figure, (axes,) = new_figure()
    axes.plot(values)
    log_ordinate(axes, np.array([*values, np.nan]))
    figure.draw_without_rendering()
    low, high = axes.get_ylim()
    assert axes.get_yscale() == "log"
    assert 2 <= sum(low <= tick <= high for tick in axes.get_yticks()) <= 9


@pytest.mark.parametrize("values", [[0.0, 1.0], [np.nan]])
def test_what_has_no_logarithm_is_drawn_on_a_linear_ordinate(values):
    _, (axes,) = new_figure()
    log_ordinate(axes, np.array(values))
    assert axes.get_yscale() == "linear"
