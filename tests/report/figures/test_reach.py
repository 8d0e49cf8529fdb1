"""Influence by distance and the distance probe."""

import numpy as np
import pandas as pd
import pytest

from lt2theory.report.figures import distance_probe, influence_by_distance


@pytest.fixture
def influence():
    rows = [
        (label, distance, 0.5**distance if distance < reach else 0.0)
        for label, reach in (("T = 1", 3), ("T = 2", 5))
        for distance in range(8)
    ]
    return pd.DataFrame(rows, columns=["label", "distance", "value"])


def test_non_zero_influence_and_exact_zeros_are_kept_apart(influence, line, texts):
    (axes,) = influence_by_distance(influence).axes
    assert line(axes, "T = 1").tolist() == [[0, 1], [1, 0.5], [2, 0.25]]
    zeros = line(axes, "T = 1 (exactly 0)")
    assert zeros[:, 0].tolist() == [3, 4, 5, 6, 7]
    assert (zeros[:, 1] < influence.query("value > 0")["value"].min()).all()
    assert zeros[0, 1] != line(axes, "T = 2 (exactly 0)")[0, 1]
    assert axes.get_yscale() == "log"
    assert "exactly 0" in texts(axes)


def test_reach_stands_behind_the_last_visible_token(influence, line, texts):
    (axes,) = influence_by_distance(influence, reach={"T = 1": 3, "T = 2": 5, "other": 9}).axes
    assert line(axes, "reach 3")[:, 0].tolist() == [2.5, 2.5]
    assert line(axes, "reach 5")[:, 0].tolist() == [4.5, 4.5]
    assert "reach 9" not in texts(axes)


def test_the_law_is_drawn_where_given(influence, line, legend_texts):
    law = pd.DataFrame({"label": "T = 2", "distance": [1, 0, 7], "value": [0.3, 0.6, 0.0]})
    figure = influence_by_distance(influence, law=law)
    assert line(figure.axes[0], "T = 2 (law W3)").tolist() == [[0, 0.6], [1, 0.3]]
    assert legend_texts(figure) == ["T = 1", "T = 2", "law W3"]
    assert legend_texts(influence_by_distance(influence)) == ["T = 1", "T = 2"]


@pytest.mark.parametrize("value", [-1e-9, np.nan, np.inf])
def test_impossible_influence_is_refused(influence, value):
    influence.loc[0, "value"] = value
    with pytest.raises(ValueError, match="influence runs from"):
        influence_by_distance(influence)


def test_all_zero_influence_is_refused(influence):
    with pytest.raises(ValueError, match="not all 0"):
        influence_by_distance(influence.assign(value=0.0))


def test_probe_shows_accuracy_reach_and_floor(line):
    frame = pd.DataFrame(
        {
            "label": "T = 1",
            "distance": [9, 3, 7],
            "value": [0.5, 1.0, 0.99],
            "low": [0.45, 0.98, 0.97],
            "high": [0.55, 1.0, 1.0],
        }
    )
    (axes,) = distance_probe(frame, reach={"T = 1": 8}, floors={"uniform": 0.5}).axes
    assert line(axes, "T = 1").tolist() == [[3, 1.0], [7, 0.99], [9, 0.5]]
    assert line(axes, "reach 8")[0, 0] == 7.5
    assert line(axes, "floor: uniform")[0, 1] == 0.5
    assert axes.collections[0].get_segments()[0].tolist() == [[3, 0.98], [3, 1.0]]
