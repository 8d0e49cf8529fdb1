"""Shared pieces of the figures."""

import numpy as np
import pandas as pd
import pytest

from lt2theory.report.figures.axes import (
    accuracy_axis,
    arm_legend,
    draw_interval_line,
    length_axis,
    mark_vertical,
    new_figure,
    styles_for,
)
from lt2theory.report.style import arm_styles


def test_error_bars_are_exactly_the_given_ends():
    _, (axes,) = new_figure()
    frame = pd.DataFrame(
        {
            "length": [64, 16, 32],
            "value": [0.5, 0.9, 0.7],
            "low": [0.4, 0.8, np.nan],
            "high": [0.7, 0.95, np.nan],
        }
    )
    draw_interval_line(axes, frame, "length", arm_styles(["a"])["a"], label="a")
    assert axes.get_lines()[0].get_xydata().tolist() == [[16, 0.9], [32, 0.7], [64, 0.5]]
    (bars,) = axes.collections
    assert [segment.tolist() for segment in bars.get_segments()] == [
        [[16, 0.8], [16, 0.95]],
        [[64, 0.4], [64, 0.7]],
    ]


def test_length_axis_names_every_length():
    _, (axes,) = new_figure()
    length_axis(axes, [31, 128, 31, 64], "length")
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["31", "64", "128"]
    assert axes.get_xscale() == "log"
    with pytest.raises(ValueError, match="length is 0, allowed is above 0"):
        length_axis(axes, [0, 2], "length")


def test_vertical_marks_that_crowd_get_rows_of_their_own():
    _, (axes,) = new_figure()
    axes.set_xlim(0, 100)
    mark_vertical(axes, {"first mark": 50, "second mark": 52, "far": 90}, {"far": "red"})
    rows = {text.get_text(): text.xyann[1] for text in axes.texts}
    assert rows["second mark"] > rows["first mark"] == rows["far"]
    assert {one.get_xdata()[0] for one in axes.get_lines()} == {50, 52, 90}
    assert {text.get_text(): text.get_color() for text in axes.texts}["far"] == "red"


def test_legend_lists_every_arm_once(legend_texts):
    figure, (axes,) = new_figure()
    arm_legend(axes, styles_for(["b", "a", "b"], None))
    assert legend_texts(figure) == ["b", "a"]


def test_shared_styles_must_know_every_arm():
    shared = arm_styles(["a", "b"])
    assert styles_for(["b"], shared) == {"b": shared["b"]}
    with pytest.raises(ValueError, match="styles lacks arm 'c', it has: a, b"):
        styles_for(["a", "c"], shared)


def test_accuracy_axis_shows_zero_to_one():
    _, (axes,) = new_figure()
    accuracy_axis(axes)
    low, high = axes.get_ylim()
    assert low < 0
    assert high > 1
