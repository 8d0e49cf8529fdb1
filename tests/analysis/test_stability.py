"""Residual sizes and first-token mass against direct computations."""

import numpy as np
import pytest
import torch

from lt2theory.analysis import (
    attention_weights,
    block_rms,
    first_token_mass,
    gated_first_token_mass,
    received_factors,
    recurrence_weights,
    residual_rms,
)
from lt2theory.analysis.stability import _output_gate
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.ops.factors import AttentionInputs


def test_residual_rms_of_every_loop(make_trace):
    trace = make_trace(num_loops=3)
    table = residual_rms(trace)
    assert len(table) == 4 * 3 * 9
    for row in table.sample(20, random_state=0).itertuples():
        h = trace.states[row.loops_done][row.batch, row.token]
        assert row.rms == pytest.approx((h.square().mean() ** 0.5).item())
        if row.loops_done:
            change = h - trace.states[row.loops_done - 1][row.batch, row.token]
            assert row.update_rms == pytest.approx((change.square().mean() ** 0.5).item())
    assert table.loc[table["loops_done"] == 0, "update_rms"].isna().all()


def test_first_token_mass_of_both_families(make_trace):
    trace = make_trace("window,gdn", num_loops=2, window=4)
    table = first_token_mass(trace, first_query=2, backend="reference")
    assert table.groupby("layer")["kind"].first().to_dict() == {0: "attention", 1: "recurrence"}
    assert len(table) == 2 * 2 * 2
    received = {(layer, loop): f for layer, loop, f in received_factors(trace)}
    for row in table.itertuples():
        if row.kind == "attention":
            w = attention_weights(trace.factors[row.layer, row.loop])
            assert row.uniform == pytest.approx((1 / 3 + 1 / 4) / 7)
        else:
            w = recurrence_weights(received[row.layer, row.loop], backend="reference").abs()
            w = w / w.sum(-1, keepdim=True)
            assert row.uniform == pytest.approx(np.mean(1 / np.arange(3, 10)))
        assert row.mass == pytest.approx(w[:, row.head, 2:, 0].mean().item())


def test_equal_scores_give_the_uniform_mass(trace_with):
    ones = torch.ones(3, 9, 2, 4, dtype=torch.float64)
    table = first_token_mass(trace_with({(0, 0): AttentionInputs(ones, ones, ones)}))
    np.testing.assert_allclose(table["mass"], table["uniform"], rtol=1e-12)


def test_a_silent_recurrence_has_no_mass(make_trace):
    trace = make_trace("linear_attention", num_layers=1, num_loops=1)
    f = trace.factors[0, 0]
    trace.factors[0, 0] = type(f)(0 * f.q, f.k, f.v)
    assert (first_token_mass(trace, backend="reference")["mass"] == 0).all()


def test_first_query_must_exist(make_trace):
    with pytest.raises(ValueError, match=r"first_query: 9 is not allowed \(must be in \[0, 8\]\)"):
        first_token_mass(make_trace(), first_query=9)
    with pytest.raises(ValueError, match="first_query: -1"):
        first_token_mass(make_trace(), first_query=-1)


def test_block_rms_walks_the_residual_stream(make_trace):
    trace = make_trace("gdn", num_loops=3)
    table = block_rms(trace)
    assert len(table) == 3 * 2 * 3 * 9
    for row in table.sample(30, random_state=1).itertuples():
        h = trace.residuals[row.layer, row.loop][row.batch, row.token]
        before = (
            trace.residuals[row.layer - 1, row.loop] if row.layer else trace.states[row.loop]
        )[row.batch, row.token]
        assert row.rms == pytest.approx((h.square().mean() ** 0.5).item())
        assert row.update_rms == pytest.approx(((h - before).square().mean() ** 0.5).item())


def gated_model(**fields):
    config = LoopedConfig(
        vocab_size=5, width=12, num_heads=2, num_layers=2, num_loops=2, pattern="full,gdn", **fields
    )
    return LoopedModel(config).double()


def test_an_untrained_gate_halves_what_passes():
    """The gate starts at exactly one half (theory G2); without one everything passes."""
    tokens = torch.randint(0, 5, (3, 9), generator=torch.Generator().manual_seed(0))
    for gate, share in ((True, 0.5), (False, 1.0)):
        model = gated_model(output_gate=gate)
        table = gated_first_token_mass(model, model.trace(tokens))
        assert table["layer"].tolist() == [0] * 4
        np.testing.assert_allclose(table["gate"], share)
        np.testing.assert_allclose(table["passed"], share * table["mass"])
        plain = first_token_mass(model.trace(tokens)).query("kind == 'attention'")
        np.testing.assert_allclose(table["mass"], plain["mass"])


def test_the_gate_is_the_one_that_ran():
    """The output recomputed from weights, values and gate is the change that the mixer made."""
    model = gated_model(output_gate=True, num_kv_heads=1, ffn_width=0)
    with torch.no_grad():
        g = torch.Generator().manual_seed(2)
        weight = model.blocks[0].mixer.g_proj.weight
        weight.copy_(torch.randn(weight.shape, generator=g, dtype=torch.float64))
    tokens = torch.randint(0, 5, (2, 7), generator=torch.Generator().manual_seed(0))
    trace = model.trace(tokens)
    gate = _output_gate(model, trace, 0, 1)
    inputs = trace.factors[0, 1]
    read = attention_weights(inputs) @ inputs.v.transpose(1, 2)
    change = model.blocks[0].mixer.o_proj((gate * read).transpose(1, 2).flatten(2))
    torch.testing.assert_close(trace.states[1] + change, trace.residuals[0, 1])
    table = gated_first_token_mass(model, trace, first_query=6)
    weights, value = attention_weights(inputs)[:, 1, 6, 0], inputs.v[:, 0, 0]
    share = (gate[:, 1, 6] * value).norm(dim=-1) / value.norm(dim=-1)
    row = table.query("loop == 1 and head == 1").iloc[0]
    assert row["passed"] == pytest.approx((weights * share).mean().item())


def test_without_attention_there_is_nothing_to_gate(make_trace):
    model = LoopedModel(LoopedConfig(vocab_size=5, pattern="gdn"))
    table = gated_first_token_mass(model, make_trace("gdn"))
    assert table.empty
    assert list(table) == ["layer", "loop", "head", "mass", "passed", "gate"]
