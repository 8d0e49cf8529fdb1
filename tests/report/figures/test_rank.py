"""Effective rank against loops."""

import numpy as np
import pandas as pd
import pytest

from lt2theory.report.figures import effective_rank_by_loops


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    rows = [
        (label, loops, rng.uniform(0, loops), loops * 0.9)
        for label, most in (("gdn", 4), ("kda", 2))
        for loops in (1, 2, 4)
        if loops <= most
        for _ in range(101)
    ]
    return pd.DataFrame(rows, columns=["label", "num_loops", "value", "ideal"])


def test_bars_are_quantiles_of_the_measured_distribution(frame):
    (axes,) = effective_rank_by_loops(frame).axes
    medians = [one for one in axes.get_lines() if one.get_label() == "gdn"]
    for line, loops in zip(medians, (1, 2, 4), strict=True):
        cell = frame[(frame["label"] == "gdn") & (frame["num_loops"] == loops)]["value"]
        assert line.get_ydata()[0] == pytest.approx(cell.median())
    cell = frame.query("label == 'gdn' and num_loops == 1")["value"].to_numpy()
    spans = [bar.get_segments()[0][:, 1].tolist() for bar in axes.collections]
    assert spans[3] == pytest.approx(np.quantile(cell, [0.05, 0.95]).tolist())
    assert spans[4] == pytest.approx(np.quantile(cell, [0.25, 0.75]).tolist())


def test_bound_and_ideal_are_drawn(frame):
    (axes,) = effective_rank_by_loops(frame).axes
    bounds = [bar.get_segments()[0][:, 1].tolist() for bar in axes.collections[:3]]
    assert bounds == [[1, 1], [2, 2], [4, 4]]
    ideals = [one for one in axes.get_lines() if one.get_label() == "kda (orthogonal keys)"]
    assert [one.get_ydata()[0] for one in ideals] == pytest.approx([0.9, 1.8])
    keys = [text.get_text() for text in axes.get_legend().get_texts()]
    assert keys == ["bound T", "middle half", "middle 90 %", "orthogonal keys"]


def test_without_an_ideal_none_is_promised(frame):
    (axes,) = effective_rank_by_loops(frame.drop(columns="ideal"), kind="stable").axes
    assert "orthogonal keys" not in [text.get_text() for text in axes.get_legend().get_texts()]
    assert axes.get_ylabel() == "effective rank (stable)"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2", "4"]
