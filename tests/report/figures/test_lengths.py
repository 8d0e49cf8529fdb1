"""Length generalisation and the exact-prefix curve."""

import numpy as np
import pandas as pd
import pytest

from lt2theory.report.figures import exact_prefix, exact_prefix_panels, length_generalisation


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "label": ["a", "a", "b", "b"],
            "length": [32, 129, 32, 129],
            "value": [0.99, 0.98, 0.9, 0.2],
            "low": [0.98, 0.97, 0.85, np.nan],
            "high": [1.0, 0.99, 0.95, np.nan],
        }
    )


def test_points_intervals_and_training_length(frame, line):
    (axes,) = length_generalisation(frame, training_length=32).axes
    assert line(axes, "a").tolist() == [[32, 0.99], [129, 0.98]]
    assert line(axes, "b").tolist() == [[32, 0.9], [129, 0.2]]
    assert line(axes, "longest in training: 32")[:, 0].tolist() == [32, 32]
    assert [len(bars.get_segments()) for bars in axes.collections] == [2, 1]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["32", "129"]


def test_floors_may_be_constant_or_depend_on_the_length(frame, line, texts):
    (axes,) = length_generalisation(frame, floors={"uniform": 0.5}).axes
    assert line(axes, "floor: uniform")[:, 1].tolist() == [0.5, 0.5]
    floors = pd.DataFrame({"length": [129, 32], "floor": "majority", "value": [0.25, 0.5]})
    (axes,) = length_generalisation(frame, floors=floors).axes
    assert line(axes, "floor: majority").tolist() == [[32, 0.5], [129, 0.25]]
    assert texts(axes) == ["majority 0.25"]


def test_seeds_must_be_summarised_first(frame):
    with pytest.raises(ValueError, match="length generalisation: 2 rows share a key"):
        length_generalisation(pd.concat([frame, frame.iloc[[0]]]))


def test_exact_prefix_draws_every_seed(legend_texts):
    rows = [
        (label, seed, position, rate**position)
        for label, rate in (("a", 0.99), ("b", 0.8))
        for seed in range(2)
        for position in range(1, 8)
    ]
    frame = pd.DataFrame(rows, columns=["label", "seed", "position", "value"])
    figure = exact_prefix(frame, training_length=4)
    (axes,) = figure.axes
    curves = [one for one in axes.get_lines() if len(one.get_xdata()) == 7]
    assert len(curves) == 4
    assert curves[2].get_ydata().tolist() == pytest.approx([0.8**p for p in range(1, 8)])
    assert axes.get_xlim() == (1, 7)
    assert legend_texts(figure) == ["a", "b"]


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ({"S5": ["two", "four"], "S3": ["one", "two"]}, ["one", "two", "four"]),
        ({"S5": ["two"], "S3": ["one", "two", "four"]}, ["one", "two", "four"]),
        ({"S5": ["one", "four"], "S3": ["two"]}, ["one", "four", "two"]),
        ({"S5": ["one", "two"], "S3": ["two", "one"]}, ["one", "two"]),
    ],
)
def test_a_legend_keeps_the_order_of_every_group(groups, expected, legend_texts):
    frame = pd.DataFrame(
        [
            {"group": group, "label": label, "seed": 0, "position": place, "value": 1 / place}
            for group, labels in groups.items()
            for label in labels
            for place in (1, 2)
        ]
    )
    assert legend_texts(exact_prefix_panels(frame, training_length=2)) == expected


def test_exact_prefix_panels_share_colours_and_have_a_line_a_seed(legend_texts):
    frame = pd.DataFrame(
        [
            {"group": group, "label": label, "seed": seed, "position": place, "value": 1 / place}
            for group, label, seeds in (("S3", "one", 2), ("S3", "two", 1), ("S5", "two", 3))
            for seed in range(seeds)
            for place in (1, 17, 33)
        ]
    )
    figure = exact_prefix_panels(frame, training_length=16)
    first, second = figure.axes
    assert [axes.get_title(loc="left") for axes in (first, second)] == ["S3", "S5"]
    curves = [[line for line in axes.lines if len(line.get_xdata()) == 3] for axes in figure.axes]
    assert [len(lines) for lines in curves] == [3, 3]
    assert curves[0][-1].get_color() == curves[1][0].get_color() != curves[0][0].get_color()
    for panel in (first, second):
        assert 16 in {line.get_xdata()[0] for line in panel.lines}  # longest in training
    assert legend_texts(figure) == ["one", "two"]
    assert not second.get_ylabel()
