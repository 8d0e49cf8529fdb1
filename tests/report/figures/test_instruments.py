"""Figures of the stability instruments."""

import pandas as pd
import pytest

from lt2theory.report.figures import (
    gate_histograms,
    instruments_over_training,
    profiles_over_depth,
)

FEW = {
    "gradient_norm_loop_1": 0.5,
    "gradient_norm_loop_2": 2.0,
    "rms_loop_1": 1.0,
    "rms_loop_2": 3.0,
    "first_token_mass": 0.25,
    "massive": 9.0,
}


@pytest.fixture
def few():
    rows = [(step, name, step * x) for step in (1, 2, 3) for name, x in FEW.items()]
    return pd.DataFrame(rows, columns=["step", "metric", "value"])


@pytest.fixture
def profiles():
    rows = [
        (step, name, position, step + position)
        for step in range(1, 10)
        for name, places in (("rms", range(4)), ("first_token_mass", (1, 3)))
        for position in places
    ]
    return pd.DataFrame(rows, columns=["step", "metric", "position", "value"])


def test_every_loop_has_a_line(few, line):
    gradient, rms, shares = instruments_over_training(few).axes
    assert line(gradient, "loop 2").tolist() == [[1, 2], [2, 4], [3, 6]]
    assert line(rms, "loop 1")[:, 1].tolist() == [1, 2, 3]
    assert line(shares, "first-token mass")[:, 1].tolist() == [0.25, 0.5, 0.75]
    assert len(shares.get_lines()) == 1
    with pytest.raises(ValueError, match="column 'metric' is missing"):
        instruments_over_training(few.drop(columns="metric"))


def test_a_few_steps_are_drawn_over_the_depth(profiles, line):
    rms, mass = profiles_over_depth(profiles, num_layers=2, num_loops=2).axes
    drawn = [one.get_label() for one in rms.get_lines() if one.get_label().startswith("step")]
    assert drawn == ["step 1", "step 3", "step 5", "step 7", "step 9"]
    assert line(rms, "step 9").tolist() == [[0, 9], [1, 10], [2, 11], [3, 12]]
    assert line(mass, "step 1").tolist() == [[1, 2], [3, 4]]
    assert [tick.get_text() for tick in mass.get_xticklabels()] == ["1.1", "1.2", "2.1", "2.2"]


def test_gates_of_the_last_reading():
    rows = [(s, "beta_loop_1", i, s * x) for s in (1, 2) for i, x in enumerate((0.1, 0.2, 0.2))]
    frame = pd.DataFrame(rows, columns=["step", "metric", "position", "value"])
    (axes,) = gate_histograms(frame, {"beta": (0.0, 0.5, 1.0, 2.0)}).axes
    (steps,) = axes.patches
    assert steps.get_data().values.tolist() == [0.2, 0.4, 0.4]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "1"]
