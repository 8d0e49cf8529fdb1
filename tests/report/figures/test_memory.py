"""Rank of the states over time."""

import pandas as pd
import pytest

from lt2theory.report.figures import state_rank_over_time


@pytest.fixture
def frame():
    rows = [
        (label, tokens, min(tokens, most), min(tokens, most) - 0.5, min(2 * tokens, 8))
        for label, most in (("layer 1", 4), ("layer 2", 6))
        for tokens in (1, 2, 4, 8)
        for _ in range(3)
    ]
    return pd.DataFrame(rows, columns=["label", "num_tokens", "rank", "entropy_rank", "bound"])


def test_rank_bound_and_effective_rank(frame, line, legend_texts):
    figure = state_rank_over_time(frame)
    left, right = figure.axes
    assert line(left, "layer 1").tolist() == [[1, 1], [2, 2], [4, 4], [8, 4]]
    assert line(left, "layer 2 (bound)").tolist() == [[1, 2], [2, 4], [4, 8], [8, 8]]
    assert line(right, "layer 2").tolist() == [[1, 0.5], [2, 1.5], [4, 3.5], [8, 5.5]]
    assert right.get_ylabel() == "effective rank (entropy)"
    assert legend_texts(figure) == ["layer 1", "layer 2", "bound M5"]


def test_the_kind_must_have_been_measured(frame):
    with pytest.raises(ValueError, match="column 'stable_rank' is missing"):
        state_rank_over_time(frame, kind="stable")
