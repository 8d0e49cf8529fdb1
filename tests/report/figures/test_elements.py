"""Effective rank of every group element."""

import pandas as pd
import pytest

from lt2theory.report.figures import rank_by_element


@pytest.fixture
def frame():
    rows = [
        (head, element, reference + shift, reference - 0.1, reference + 0.2, reference)
        for head, shift in (("layer 1, head 2", 0.05), ("layer 1, head 1", 0.7))
        for element, reference in (("(1 2 3)", 2), ("()", 0), ("(1 2)", 1))
    ]
    return pd.DataFrame(rows, columns=["head", "element", "median", "low", "high", "reference"])


def test_elements_stand_by_what_they_need(frame, line, legend_texts):
    figure = rank_by_element(frame, best="layer 1, head 2")
    (axes,) = figure.axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["()", "(1 2)", "(1 2 3)"]
    points = line(axes, "layer 1, head 2")
    assert points[:, 1].tolist() == pytest.approx([0.05, 1.05, 2.05])
    steps = [one.tolist() for one in axes.collections[0].get_segments()]
    assert [step[0][1] for step in steps] == [0, 1, 2]
    bars = [one[:, 1].tolist() for one in axes.collections[1].get_segments()]
    assert bars[2] == pytest.approx([1.9, 2.2])
    others = line(axes, "other heads")
    assert sorted(others.tolist()) == [
        pytest.approx([0.2, 0.7]),
        pytest.approx([1.2, 1.7]),
        pytest.approx([2.2, 2.7]),
    ]
    assert legend_texts(figure) == ["n - cycles (E2)", "layer 1, head 2", "other heads"]


def test_the_best_head_must_be_there(frame):
    with pytest.raises(
        ValueError, match=r"best: 'head 9' is not allowed.*choose from layer 1, head 2, layer"
    ):
        rank_by_element(frame, best="head 9")
