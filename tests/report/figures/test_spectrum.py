"""Singular values against loops."""

import numpy as np
import pandas as pd
import pytest

from lt2theory.report.figures import spectrum_by_loops


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    rows = [
        (loops, index, rng.uniform(0, 2 / (index + 1)), 1.5 - index / 4)
        for loops in (1, 3)
        for index in range(loops)
        for _ in range(51)
    ]
    columns = ["num_loops", "index", "singular_value", "orthogonal_ideal"]
    return pd.DataFrame(rows, columns=columns)


def test_each_t_has_one_slot_a_value_in_order(frame):
    (axes,) = spectrum_by_loops(frame).axes
    for index in range(3):
        lines = [one for one in axes.get_lines() if one.get_label() == f"value {index + 1}"]
        assert len(lines) == (2 if index == 0 else 1)
        cell = frame[(frame["num_loops"] == 3) & (frame["index"] == index)]["singular_value"]
        assert lines[-1].get_ydata()[0] == pytest.approx(cell.median())
    slots = [
        one.get_xdata()[0]
        for one in axes.get_lines()
        if one.get_label() in {"value 1", "value 2", "value 3"}
    ]
    assert slots[0] == pytest.approx(0)
    assert 0.5 < slots[1] < slots[2] < slots[3] < 1.5
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "3"]


def test_bound_and_ideal_are_drawn(frame):
    (axes,) = spectrum_by_loops(frame).axes
    ideal = [one for one in axes.get_lines() if one.get_label() == "value 3 (orthogonal keys)"]
    assert [one.get_ydata()[0] for one in ideal] == [1.0]
    assert axes.collections[0].get_segments()[0][:, 1].tolist() == [2, 2]
    keys = [text.get_text() for text in axes.get_legend().get_texts()]
    assert keys == ["bound 2 (S1)", "median", "middle half", "middle 90 %", "orthogonal keys"]


def test_only_the_largest_values_get_a_slot(frame):
    (axes,) = spectrum_by_loops(frame, most_values=2).axes
    labels = {one.get_label() for one in axes.get_lines()}
    assert "value 2" in labels
    assert "value 3" not in labels
