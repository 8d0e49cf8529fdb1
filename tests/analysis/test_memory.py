"""State ranks and retrieval against direct computations and the memory claims (M1 to M5)."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from lt2theory.analysis import (
    effective_rank,
    recall_horizon,
    received_factors,
    retrieval_snr,
    state_rank,
)
from lt2theory.ops import run_factors
from lt2theory.ops.factors import Factors


def stream(keys, values, *, beta=None, log_decay=None) -> Factors:
    """One head's factors `[b t 1 1 ...]` from keys and values `[b t d]`."""
    k, v = (
        torch.as_tensor(np.asarray(x), dtype=torch.float64)[:, :, None, None]
        for x in (keys, values)
    )
    gates = [
        None if gate is None else torch.full(k.shape[:4], gate, dtype=torch.float64)
        for gate in (log_decay, beta)
    ]
    return Factors(k[:, :, 0], k, v, log_decay=gates[0], beta=gates[1])


@pytest.mark.parametrize("every", [1, 4, 100])
@pytest.mark.parametrize("loop_state", ["rescan", "accumulate"])
def test_state_rank_equals_the_svd_of_the_state(make_trace, every, loop_state):
    trace = make_trace("gdn", loop_state=loop_state)
    table = state_rank(trace, every=every, backend="reference").set_index(
        ["layer", "loop", "num_tokens", "batch", "head"]
    )
    measured = sorted({min(t, 9) for t in range(every, 9 + every, every)})
    assert sorted(table.index.unique("num_tokens")) == measured
    for layer, loop, factors in received_factors(trace):
        for t in measured:
            cut = Factors(
                *(
                    x[:, :t]
                    for x in (factors.q, factors.k, factors.v, factors.log_decay, factors.beta)
                )
            )
            _, state = run_factors(cut, backend="reference")
            values = torch.linalg.svdvals(state)
            for batch in range(3):
                for head in range(2):
                    row, s = table.loc[(layer, loop, t, batch, head)], values[batch, head]
                    assert row["rank"] == (s > 1e-8 * s[0]).sum()
                    assert row["num_pairs"] == t * factors.num_factors
                    assert row["bound"] == min(t * factors.num_factors, 6)
                    assert row["norm"] == pytest.approx(state[batch, head].norm().item())
                    assert row["largest"] == pytest.approx(s[0].item())
                    assert row["entropy_rank"] == pytest.approx(effective_rank(s).item())
    assert (table["rank"] <= table["bound"]).all()


@pytest.mark.parametrize("loop_state", ["rescan", "accumulate"])
def test_the_state_of_an_mlstm_is_its_memory(make_trace, loop_state):
    """C_t of the paper, whatever the stabiliser kept it scaled by."""
    trace = make_trace("mlstm", loop_state=loop_state)
    trace.factors.update(
        {
            place: replace(f, log_write=20 * torch.cos(7 * f.k.sum(-1)))
            for place, f in trace.factors.items()
        }
    )
    table = state_rank(trace, every=4).set_index(["layer", "loop", "num_tokens", "batch", "head"])
    for layer, loop, f in received_factors(trace):
        memory = torch.zeros(3, 2, 6, 6, dtype=torch.float64)
        for t in range(9):
            for i in range(f.num_factors):
                gate = f.log_write[:, t, i].exp()[..., None, None]
                outer = f.k[:, t, i][..., None] * f.v[:, t, i][:, :, None]
                memory = f.log_decay[:, t, i].exp()[..., None, None] * memory + gate * outer
            if t + 1 in (4, 8, 9):
                for batch, head in ((0, 0), (2, 1)):
                    row = table.loc[(layer, loop, t + 1, batch, head)]
                    norm = memory[batch, head].norm().item()
                    assert row["norm"] == pytest.approx(norm, rel=1e-10)
    assert (table["rank"] <= table["bound"]).all()
    assert table["norm"].max() > 1e3


def test_retrieval_equals_a_loop_over_the_pairs(make_trace):
    trace = make_trace("kda", loop_state="accumulate")
    table = retrieval_snr(trace, every=5, backend="reference")
    index = ["layer", "loop", "num_tokens", "head", "age"]
    rows = table.set_index(index)
    assert not table.duplicated(index).any()
    for layer, loop, f in received_factors(trace):
        state = torch.zeros(3, 2, 6, 6, dtype=torch.float64)
        pairs = []
        for t in range(5):
            one = Factors(*(x[:, t : t + 1] for x in (f.q, f.k, f.v, f.log_decay, f.beta)))
            _, state = run_factors(one, initial_state=state, backend="reference")
            pairs += [(f.k[:, t, i], f.v[:, t, i]) for i in range(f.num_factors)]
        for age, (k, v) in enumerate(reversed(pairs)):
            read = torch.einsum("bhk,bhkv->bhv", k, state)
            c = (read * v).sum(-1) / v.square().sum(-1)
            noise = (read - c[..., None] * v).square().sum(-1).mean(0)
            signal = (c**2 * v.square().sum(-1)).mean(0)
            for head in range(2):
                row = rows.loc[(layer, loop, 5, head, age)]
                assert row["recall"] == pytest.approx(c.mean(0)[head].item(), abs=1e-12)
                assert row["signal"] == pytest.approx(signal[head].item(), abs=1e-12)
                assert row["noise"] == pytest.approx(noise[head].item(), abs=1e-12)
                assert row["snr"] == pytest.approx(row["signal"] / row["noise"])
    assert len(table) == 2 * 2 * (5 * 1 + 5 * 2 + 9 * 1 + 9 * 2)


def test_m2_the_delta_rule_recalls_orthonormal_pairs_exactly(trace_with):
    rng = np.random.default_rng(0)
    keys = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    trace = trace_with({(0, 0): stream(keys[None], rng.standard_normal((1, 6, 4)), beta=1.0)})
    table = retrieval_snr(trace, every=6)
    np.testing.assert_allclose(table["recall"], 1, atol=1e-12)
    assert (table["noise"] < 1e-24).all()
    assert recall_horizon(table)["horizon"].tolist() == [6]
    ranks = state_rank(trace)
    assert ranks["rank"].tolist() == ranks["bound"].tolist() == [1, 2, 3, 4, 4, 4]


def test_m4_a_fixed_decay_forgets_like_its_power(trace_with):
    rng = np.random.default_rng(1)
    keys = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    values = rng.standard_normal((1, 8, 3))
    trace = trace_with({(0, 0): stream(keys[None], values, log_decay=np.log(0.7))})
    table = retrieval_snr(trace, every=8)
    np.testing.assert_allclose(table.sort_values("age")["recall"], 0.7 ** np.arange(8), rtol=1e-12)


def test_m1_interference_of_linear_attention(trace_with):
    rng = np.random.default_rng(2)
    keys = rng.standard_normal((1500, 6, 16))
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    values = rng.standard_normal((1, 6, 8)) * np.ones((1500, 1, 1))
    table = retrieval_snr(trace_with({(0, 0): stream(keys, values)}), every=6)
    energies = (values[0] ** 2).sum(-1)[::-1]
    for row in table.itertuples():
        # Unbiased; the deviation of a mean of 1,500 recalls with variance <= 5/16 is 0.015.
        assert row.recall == pytest.approx(1, abs=0.06)
        others = values[0][::-1][np.arange(6) != row.age]
        unit = values[0][::-1][row.age] / energies[row.age] ** 0.5
        orthogonal = ((others - np.outer(others @ unit, unit)) ** 2).sum() / 16
        assert row.noise == pytest.approx(orthogonal, rel=0.15)


def test_horizon_counts_the_newest_pairs_only():
    table = pd.DataFrame(
        {
            "layer": 0,
            "loop": 0,
            "head": 0,
            "num_tokens": 4,
            "num_pairs": 4,
            "age": [3, 0, 1, 2],
            "signal": [9.0, 4.0, 2.0, 0.5],
            "noise": [1.0, 1.0, 1.0, 1.0],
            "snr": [9.0, 4.0, 2.0, 0.5],
        }
    )
    summary = recall_horizon(table)
    assert summary["horizon"].tolist() == [2]
    assert summary["snr"].tolist() == [15.5 / 4]
    assert recall_horizon(table, least_snr=0.1)["horizon"].tolist() == [4]
    assert recall_horizon(table, least_snr=5)["horizon"].tolist() == [0]


def test_errors_name_the_argument(make_trace):
    trace = make_trace()
    with pytest.raises(ValueError, match="every: 0 is not allowed"):
        state_rank(trace, every=0)
    with pytest.raises(ValueError, match="every: 0 is not allowed"):
        retrieval_snr(trace, every=0)
    with pytest.raises(ValueError, match="tol: 2"):
        state_rank(trace, rank_tol=2.0, backend="reference")
    with pytest.raises(ValueError, match="least_snr: 0"):
        recall_horizon(pd.DataFrame(), least_snr=0)
    with pytest.raises(ValueError, match="trace: no layer has a recurrence"):
        state_rank(make_trace("full"))
