"""Lines named in the margin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from lt2theory.report.figures.axes import new_figure
from lt2theory.report.figures.margins import draw_floors, label_margin, spread


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.01, 0.3))
def test_spread_labels_keep_their_distance_and_order(heights, gap):
    wanted = sorted(heights)
    placed = np.array(spread(wanted, gap))
    assert (np.diff(placed) >= gap - 1e-9).all()
    if (np.diff(wanted) >= gap).all():
        assert placed == pytest.approx(wanted)


@pytest.mark.parametrize("wanted", [[0.2, 0.21, 0.22, 0.9], [0.5, 0.5, 0.5], [0.1, 0.3, 0.31]])
def test_spread_moves_labels_as_little_as_possible(wanted):
    gap = 0.06
    constraints = [
        {"type": "ineq", "fun": lambda x, i=i: x[i + 1] - x[i] - gap}
        for i in range(len(wanted) - 1)
    ]
    best = minimize(
        lambda x: ((x - np.array(wanted)) ** 2).sum(), wanted, constraints=constraints, tol=1e-12
    )
    assert spread(wanted, gap) == pytest.approx(list(best.x), abs=1e-5)


def test_margin_labels_sit_at_their_heights_unless_crowded(texts):
    _, (axes,) = new_figure()
    axes.set_ylim(0, 2)
    label_margin(axes, {"low": 0.5, "high": 1.5, "nearly high": 1.51})
    heights = {text.get_text(): text.get_position()[1] for text in axes.texts}
    assert texts(axes) == ["low", "high", "nearly high"]
    assert heights["low"] == pytest.approx(0.25)
    assert heights["nearly high"] - heights["high"] > 0.05
    assert (heights["nearly high"] + heights["high"]) / 2 == pytest.approx(0.7525)


def test_equal_floors_share_a_line(line):
    _, (axes,) = new_figure()
    marks = draw_floors(axes, {"uniform": 0.5, "majority": 0.5, "no tracking": 0.7})
    assert marks == {"uniform, majority 0.5": 0.5, "no tracking 0.7": 0.7}
    assert line(axes, "floor: uniform, majority")[:, 1].tolist() == [0.5, 0.5]
    assert len(axes.get_lines()) == 2
