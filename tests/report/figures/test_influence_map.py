"""The influence map: colours, reach, quantiles of measurement and law."""

import numpy as np
import pandas as pd
import pytest

from lt2theory.report.figures import influence_map


@pytest.fixture
def frame():
    rows = [
        (loops, distance, 0.1**distance if distance < 3 * loops else 0.0)
        for loops in (1, 2)
        for distance in range(8)
    ]
    return pd.DataFrame(rows, columns=["loops_done", "distance", "value"])


def mesh_of(figure):
    return figure.axes[0].collections[0]


def test_colours_are_logarithmic_and_zeros_are_white(frame):
    mesh = mesh_of(influence_map(frame))
    cells = mesh.get_array().reshape(2, 8)
    assert cells.mask.tolist() == [[False] * 3 + [True] * 5, [False] * 6 + [True] * 2]
    assert cells[1, 4] == pytest.approx(1e-4)
    low, high = mesh.norm(np.array([1e-5, 1.0]))
    assert (low, high) == (0, 1)
    assert mesh.norm(10**-2.5) == pytest.approx(0.5)


def test_the_weakest_colour_ends_after_twelve_decades(frame):
    frame.loc[0, "value"] = 1e9
    assert mesh_of(influence_map(frame)).norm.vmin == pytest.approx(1e-3)


def test_reach_steps_behind_the_last_visible_token(frame, line):
    reach = pd.DataFrame({"loops_done": [1, 2], "reach": [3, 6]})
    axes = influence_map(frame, reach=reach).axes[0]
    assert line(axes, "reach W1").tolist() == [[2.5, -0.5], [2.5, 0.5], [5.5, 0.5], [5.5, 1.5]]


def test_quantiles_of_measurement_and_law(frame, line, legend_texts):
    law = pd.DataFrame({"loops_done": [1, 1, 1], "distance": [0, 1, 2], "value": [0.4, 0.3, 0.3]})
    figure = influence_map(frame, law=law)
    axes = figure.axes[0]
    assert line(axes, "measured: 50 % within").tolist() == [[0, 0], [0, 1]]
    assert line(axes, "measured: 99 % within").tolist() == [[1, 0], [1, 1]]
    assert line(axes, "law W3: 50 % within").tolist() == [[1, 0]]
    assert line(axes, "law W3: 99 % within").tolist() == [[2, 0]]
    assert legend_texts(figure) == [
        "measured: 50 % within",
        "measured: 99 % within",
        "law W3: 50 % within",
        "law W3: 99 % within",
    ]


@pytest.mark.parametrize("bad", [-1.0, np.inf, 0.0])
def test_only_influences_are_drawn(frame, bad):
    broken = frame.assign(value=bad) if bad == 0 else frame.replace({"value": {1.0: bad}})
    with pytest.raises(ValueError, match=r"influence runs from .* allowed are finite values"):
        influence_map(broken)
