"""Residual RMS and first-token mass along the depth."""

import numpy as np
import pandas as pd
import pytest

from lt2theory.report.figures import saw_tooth

PLACES = [(loop, layer) for loop in range(2) for layer in range(3)]


@pytest.fixture
def rms():
    rows = [
        (loop, layer, batch, token, 10 * loop + layer + (5 if token == 0 else 0.01 * token))
        for loop, layer in PLACES
        for batch in range(2)
        for token in range(11)
    ]
    return pd.DataFrame(rows, columns=["loop", "layer", "batch", "token", "rms"])


@pytest.fixture
def mass():
    rows = [
        (loop, layer, head, 0.2 * head + 0.1, 0.1 * head, 0.25)
        for loop, layer in PLACES
        if layer != 1
        for head in range(2)
    ]
    return pd.DataFrame(rows, columns=["loop", "layer", "head", "mass", "passed", "uniform"])


def test_first_token_has_its_own_line(rms, line):
    (axes,) = saw_tooth(rms).axes
    assert line(axes, "first token").tolist() == [
        [place, 10 * loop + layer + 5] for place, (loop, layer) in enumerate(PLACES)
    ]
    values = line(axes, "other tokens")[:, 1]
    assert values.tolist() == pytest.approx([10 * a + b + 0.055 for a, b in PLACES])
    names = [tick.get_text() for tick in axes.get_xticklabels()]
    assert names == ["1.1", "1.2", "1.3", "2.1", "2.2", "2.3"]
    between = [one.get_xdata()[0] for one in axes.get_lines() if one.get_label()[0] == "_"]
    assert between == [2.5]


def test_mass_is_the_mean_over_heads_where_it_was_measured(rms, mass, line):
    _, axes = saw_tooth(rms, mass).axes
    assert line(axes, "mass on the first token")[:, 0].tolist() == [0, 2, 3, 5]
    assert line(axes, "mass on the first token")[:, 1] == pytest.approx(0.2)
    assert line(axes, "behind the output gate")[:, 1] == pytest.approx(0.05)
    assert line(axes, "if all were equal")[:, 1] == pytest.approx(0.25)
    heads = next(one for one in axes.get_lines() if one.get_label() == "_heads")
    assert heads.get_ydata() == pytest.approx([0.1, 0.3] * 4)


def test_without_a_gate_nothing_is_said_about_it(rms, mass):
    _, axes = saw_tooth(rms, mass.assign(passed=np.nan)).axes
    names = [text.get_text() for text in axes.get_legend().get_texts()]
    assert names == ["mass on the first token", "if all were equal"]


def test_one_layer_counts_loops_alone(rms):
    (axes,) = saw_tooth(rms[rms["layer"] == 0]).axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2"]
    assert axes.get_xlabel() == "loop"
