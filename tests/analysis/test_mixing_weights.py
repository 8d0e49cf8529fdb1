"""Weights against the outputs that they give, and against attention by hand."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from lt2theory.analysis import (
    attention_weights,
    first_token_mass,
    received_factors,
    recurrence_weights,
)
from lt2theory.ops import run_attention, run_factors
from lt2theory.ops.factors import AttentionInputs


@pytest.mark.parametrize(
    "pattern",
    [
        *("linear_attention", "retnet", "mamba2", "gla", "hgrn2"),
        *("deltanet", "gdn", "kda", "gated_deltaproduct"),
    ],
)
@pytest.mark.parametrize("loop_state", ["rescan", "accumulate"])
def test_recurrence_weights_reproduce_the_outputs(make_trace, pattern, loop_state):
    """W applied to values that do not depend on the factor is the op's own output."""
    for *_, factors in received_factors(make_trace(pattern, loop_state=loop_state)):
        shared = factors.v[:, :, :1].expand_as(factors.v)
        expected, _ = run_factors(replace(factors, v=shared), backend="reference")
        weights = recurrence_weights(factors, backend="reference")
        assert weights.shape == (3, 2, 9, 9)
        assert (weights.triu(1) == 0).all()
        o = torch.einsum("bhts,bshv->bthv", weights, shared[:, :, 0])
        torch.testing.assert_close(o, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("loop_state", ["rescan", "accumulate"])
def test_recurrence_weights_of_an_mlstm_are_normalised(make_trace, loop_state):
    """Every weight over `max(|their sum|, 1)`, from the unrolled recurrence."""
    divided = []
    for *_, f in received_factors(make_trace("mlstm", loop_state=loop_state)):
        f = replace(f, log_write=f.log_write + 6)
        weights = recurrence_weights(f)
        decays = f.log_decay.sum(2).cumsum(1)
        for t in range(9):
            unnormalised = torch.zeros(3, 2, 9, dtype=torch.float64)
            for s in range(t + 1):
                for i in range(f.num_factors):
                    later = f.log_decay[:, s, i + 1 :].sum(1) + decays[:, t] - decays[:, s]
                    score = (f.q[:, t] * f.k[:, s, i]).sum(-1) * 6**-0.5
                    unnormalised[..., s] += (f.log_write[:, s, i] + later).exp() * score
            normaliser = unnormalised.sum(-1, keepdim=True).abs()
            divided += (normaliser > 1).flatten().tolist()
            torch.testing.assert_close(weights[:, :, t], unnormalised / normaliser.clamp(min=1))
    assert 0 < sum(divided) < len(divided)


@pytest.mark.parametrize("window", [None, 1, 3, 20])
def test_attention_weights_by_hand(window):
    g = torch.Generator().manual_seed(0)
    q = torch.randn(2, 7, 4, 6, generator=g, dtype=torch.float64)
    k, v = (torch.randn(2, 7, 2, 6, generator=g, dtype=torch.float64) for _ in range(2))
    weights = attention_weights(AttentionInputs(q, k, v, window=window))
    for head in range(4):
        for t in range(7):
            seen = [j for j in range(t + 1) if window is None or t - j < window]
            scores = np.array([(q[1, t, head] @ k[1, j, head // 2]).item() for j in seen]) / 6**0.5
            expected = np.zeros(7)
            expected[seen] = np.exp(scores) / np.exp(scores).sum()
            np.testing.assert_allclose(weights[1, head, t], expected, rtol=1e-11)


@pytest.mark.parametrize("mixer", ["nsa", "dsa"])
def test_attention_weights_of_sparse_attention(mixer, make_trace):
    """The op's output is their product with the values, and the first token has its share."""
    fields = {"block_size": 2, "num_blocks": 2, "window": 2, "top_k": 3, "num_loops": 1}
    trace = make_trace(mixer, num_layers=1, num_kv_heads=1, **fields)
    inputs = trace.factors[0, 0]
    weights = attention_weights(inputs)
    read = weights @ inputs.v.transpose(1, 2)
    torch.testing.assert_close(read.transpose(1, 2), run_attention(inputs))
    assert (weights.triu(1) == 0).all()
    if mixer == "nsa":  # every branch sees something from the end of the first block on
        torch.testing.assert_close(weights.sum(-1)[..., 1:], inputs.gates.sum(-1).mT[..., 1:])
    row = first_token_mass(trace).iloc[1]
    share = weights[:, 1, 1:, 0] / weights[:, 1, 1:].sum(-1)
    assert row["mass"] == pytest.approx(share.mean().item())
    assert row["uniform"] == pytest.approx(np.mean(1 / np.arange(2, 10)))
