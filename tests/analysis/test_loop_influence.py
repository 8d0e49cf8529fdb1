"""Influence after every loop, against models that stop there."""

import numpy as np
import pandas as pd
import pytest
import torch

from lt2theory.analysis import (
    influence_by_loops,
    influence_law,
    law_by_loops,
    measured_influence,
    reach,
    reach_by_loops,
    windows_of,
)
from lt2theory.models import LoopedConfig, LoopedModel

TOKENS = torch.randint(0, 5, (2, 12), generator=torch.Generator().manual_seed(0))


def config_of(pattern, num_loops=3, **fields):
    return LoopedConfig(
        vocab_size=5,
        width=8,
        num_heads=2,
        num_layers=2,
        num_loops=num_loops,
        pattern=pattern,
        **fields,
    )


@pytest.mark.parametrize(
    ("pattern", "loop_state"), [("window(3)", "rescan"), ("gdn,full", "accumulate")]
)
def test_each_row_is_the_model_that_stops_there(pattern, loop_state):
    model = LoopedModel(config_of(pattern, loop_state=loop_state)).double()
    table = influence_by_loops(model, TOKENS, 10, chunk=3)
    assert table["loops_done"].unique().tolist() == [1, 2, 3]
    for count in (1, 2, 3):
        shorter = LoopedModel(config_of(pattern, count, loop_state=loop_state)).double()
        weights = dict(model.state_dict())
        weights["loop_gate"] = weights["loop_gate"][:count]
        shorter.load_state_dict(weights)
        expected = measured_influence(shorter, TOKENS, 10)
        row = table[table["loops_done"] == count]
        np.testing.assert_allclose(
            row["norm"], np.sqrt(np.square(expected.norm).mean(0)), rtol=1e-9, atol=1e-16
        )
        np.testing.assert_allclose(row["share"], expected.share, rtol=1e-9, atol=1e-16)
        assert row["reached"].tolist() == expected.support.any(0).tolist()


def test_windows_reach_what_w1_says():
    model = LoopedModel(config_of("window(2),window(3)")).double()
    windows = windows_of(model.config)
    assert windows == (2, 3)
    bounds = reach_by_loops(windows, [1, 3], num_tokens=12)
    assert bounds["reach"].tolist() == [4, 10]
    table = influence_by_loops(model, TOKENS, 11, loops=[1, 3])
    for count, bound in bounds.itertuples(index=False):
        row = table[table["loops_done"] == count]
        assert (row["reached"] == (row["distance"] < bound)).all()
    assert reach_by_loops((4, 4), [5], num_tokens=100)["reach"].item() == reach(2, 5, 4)
    assert windows_of(config_of("window,gdn")) is None


def test_law_is_cut_at_the_start():
    law = law_by_loops(3, 2, 0.4, [1, 2], num_tokens=6)
    whole = influence_law(3, 0.4, 4)
    assert len(whole) == 9
    np.testing.assert_array_equal(law.query("loops_done == 2")["share"], whole[:6])
    assert law.query("loops_done == 1")["share"].sum() == pytest.approx(1)


def test_probes_agree_in_the_mean():
    model = LoopedModel(config_of("gdn", 2)).double()
    exact = influence_by_loops(model, TOKENS, 11)
    probed = influence_by_loops(
        model, TOKENS, 11, num_probes=256, generator=torch.Generator().manual_seed(0), chunk=64
    )
    np.testing.assert_allclose(probed["norm"], exact["norm"], rtol=0.4)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"loops": [4]}, r"loops: 4 is not allowed \(must be in \[1, 3\]\)"),
        ({"position": 12}, r"position: 12 is not allowed \(must be in \[0, 11\]\)"),
        ({"num_probes": 3}, "num_probes, generator: one alone is not allowed"),
        ({"chunk": 0}, "chunk: 0 is not allowed"),
    ],
)
def test_refusals(arguments, line):
    model = LoopedModel(config_of("gdn"))
    with pytest.raises(ValueError, match=line):
        influence_by_loops(model, TOKENS, **({"position": 3} | arguments))


def test_a_table():
    table = influence_by_loops(LoopedModel(config_of("gdn", 1)), TOKENS, 3)
    assert isinstance(table, pd.DataFrame)
    assert table["share"].sum() == pytest.approx(1, rel=1e-5)
