"""From the analysis of a real model to its figures."""

import numpy as np
import pytest
import torch

from lt2theory.analysis import influence_law, loop_transitions, measured_influence
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.report.figures import effective_rank_by_loops, influence_by_distance
from lt2theory.report.measured import effective_ranks, influence_curve


def model(pattern, **options):
    config = LoopedConfig(
        vocab_size=5, width=8, num_layers=1, num_loops=2, pattern=pattern, num_heads=2, **options
    )
    return LoopedModel(config, generator=torch.Generator().manual_seed(0)).double()


@pytest.fixture
def tokens():
    return torch.randint(0, 5, (2, 11), generator=torch.Generator().manual_seed(1))


def test_ranks_of_a_model_reach_the_figure(tokens):
    table = loop_transitions(model("gdn").trace(tokens))
    ranks = effective_ranks(table, "gdn")
    assert len(ranks) == 2 * 11 * 2 * 2
    assert ranks["value"].tolist() == table["entropy_rank"].tolist()
    (axes,) = effective_rank_by_loops(ranks).axes
    medians = [one.get_ydata()[0] for one in axes.get_lines() if one.get_label() == "gdn"]
    want = table.groupby("num_loops")["entropy_rank"].median().tolist()
    assert medians == pytest.approx(want)
    assert "ideal" not in effective_ranks(table, "gdn", kind="stable").columns


def test_influence_of_a_window_model_reaches_the_figure(tokens, line):
    looped = model("window", window=3, conv_width=0, positions="rope")
    measured = measured_influence(looped, tokens, position=10)
    frame = influence_curve(measured.share, "window")
    law = influence_curve(influence_law(3, 0.5, 2), "window")
    (axes,) = influence_by_distance(frame, reach={"window": 5}, law=law).axes
    seen = line(axes, "window")
    assert seen[:, 0].tolist() == [0, 1, 2, 3, 4]
    assert seen[:, 1] == pytest.approx(measured.share[:5])
    assert line(axes, "window (exactly 0)")[:, 0].tolist() == [5, 6, 7, 8, 9, 10]
    assert np.isclose(law["value"].sum(), 1)
