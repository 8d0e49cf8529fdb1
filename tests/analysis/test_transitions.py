"""Composed transitions of real models against dense products of the factors that ran."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from lt2theory.analysis import (
    MEANINGS,
    effective_rank,
    loop_spectrum,
    loop_transitions,
)
from lt2theory.models import LoopedConfig, LoopedModel, LoopTrace
from lt2theory.ops.factors import Factors

LABELS = ["batch", "token", "layer", "head", "num_loops"]


def trace_of(pattern="gdn", loop_state="rescan", num_loops=3, num_layers=2, **fields) -> LoopTrace:
    config = LoopedConfig(
        vocab_size=5,
        width=12,
        num_heads=2,
        num_layers=num_layers,
        num_loops=num_loops,
        pattern=pattern,
        loop_state=loop_state,
        negative_eigenvalues=True,
        conv_width=2,
        backend="reference",
        **fields,
    )
    tokens = torch.randint(0, 5, (2, 7), generator=torch.Generator().manual_seed(0))
    return LoopedModel(config).double().trace(tokens)


def dense_product(trace: LoopTrace, layer: int, row: int, tokens: range, head: int, loops: int):
    """prod D and A_eff of one span as numpy matrices, factor by factor."""
    width = trace.factors[layer, 0].k.shape[-1]
    product = baseline = np.eye(width)
    for token in tokens:
        for loop in range(loops):
            f = trace.factors[layer, loop]
            assert isinstance(f, Factors)
            for index in range(f.num_factors):
                at = (row, token, index, head)
                key = f.k[at].detach().numpy()
                gate = 0 if f.log_decay is None else f.log_decay[at].detach().numpy()
                beta = 0 if f.beta is None else f.beta[at].item()
                decay = np.diag(np.exp(gate) * np.ones(width))
                erase = np.eye(width) - beta * np.outer(key, key)
                step = erase @ decay if f.order == "decay_first" else decay @ erase
                product, baseline = step @ product, decay @ baseline
    return baseline, product


@pytest.mark.parametrize("pattern", ["deltanet", "gdn", "kda", "gated_deltaproduct"])
@pytest.mark.parametrize("loop_state", ["rescan", "accumulate"])
@pytest.mark.parametrize("span", [1, 2, 7])
def test_every_row_equals_the_dense_product(pattern, loop_state, span):
    trace = trace_of(pattern, loop_state)
    table = loop_transitions(trace, span=span)
    spectrum = loop_spectrum(trace, span=span).set_index([*LABELS, "index"]).sort_index()
    assert len(table) == 2 * (7 // span) * 2 * 2 * 3
    assert not table.duplicated(LABELS).any()
    for row in table.sample(12, random_state=1).itertuples():
        tokens = range(row.token, row.token + span)
        baseline, product = dense_product(
            trace, row.layer, row.batch, tokens, row.head, row.num_loops
        )
        count = min(row.num_factors, 6)
        expected = np.linalg.svd(baseline - product, compute_uv=False)
        own = trace.factors[row.layer, 0].num_factors
        assert own == (2 if pattern == "gated_deltaproduct" else 1)
        assert row.num_factors == row.num_loops * span * own
        assert row.rank == (expected > 1e-8 * expected[0]).sum() <= count
        assert row.absolute_rank == (expected > 0.1).sum()
        assert row.norm == pytest.approx(np.linalg.norm(baseline - product), rel=1e-10)
        assert row.largest == pytest.approx(expected[0], rel=1e-10)
        for kind in ("entropy", "stable", "threshold", "participation"):
            direct = effective_rank(torch.from_numpy(expected[:count]), kind=kind).item()
            assert getattr(row, f"{kind}_rank") == pytest.approx(direct, rel=1e-6)
        values = spectrum.loc[tuple(getattr(row, name) for name in LABELS)]["singular_value"]
        np.testing.assert_allclose(values, expected[:count], rtol=1e-8, atol=1e-12)


def test_meaning_depends_on_the_semantics():
    rescan, accumulate = (
        loop_transitions(trace_of(loop_state=name)) for name in ("rescan", "accumulate")
    )
    first = rescan["num_loops"] == 1
    assert rescan.loc[first, "acts_on_state"].all()
    assert not rescan.loc[~first, "acts_on_state"].any()
    assert set(rescan.loc[~first, "meaning"]) == {MEANINGS["rescan"]}
    assert accumulate["acts_on_state"].all()
    assert set(accumulate["meaning"]) == {MEANINGS["single"], MEANINGS["accumulate"]}
    assert set(accumulate["loop_state"]) == {"accumulate"}


@pytest.mark.parametrize("pattern", ["linear_attention", "mlstm"])
def test_r8_mixers_without_erasure_have_no_correction(pattern):
    trace = trace_of(pattern, "accumulate")
    table = loop_transitions(trace)
    ranks = [name for name in table if name.endswith("rank")] + ["norm", "largest"]
    assert len(ranks) == 9
    assert (table[ranks] == 0).all(axis=None)
    assert table["beta"].isna().all()
    assert not table["mixer_erases"].any()
    assert len(loop_spectrum(trace)) == 0


def test_an_mlstm_multiplies_its_state_by_its_forget_gates():
    """Not by the decays of the stabilised state, which hold the change of the stabiliser too."""
    trace = trace_of("mlstm", "accumulate")
    table = loop_transitions(trace).query("layer == 1 and num_loops == 3")
    gates = sum(trace.factors[1, loop].log_decay[:, :, 0].exp().log() for loop in range(3))
    for row in table.itertuples():
        expected = gates[row.batch, row.token, row.head].exp().item()
        assert row.decay == pytest.approx(expected, rel=1e-10)


def test_attention_layers_are_skipped():
    assert set(loop_transitions(trace_of("full,gdn"))["layer"]) == {1}
    with pytest.raises(ValueError, match="trace: no layer has a recurrence"):
        loop_transitions(trace_of("full"))


def hand_made(keys, betas, log_decays=None) -> LoopTrace:
    """A trace of one token, one head, one layer, with the given factors, one a loop."""
    num_loops = len(keys)
    trace = trace_of("deltanet", num_loops=num_loops, num_layers=1)

    def of_loop(values, loop):
        array = np.asarray(values, dtype=np.float64)[loop]
        return torch.from_numpy(array.reshape(1, 1, 1, 1, *array.shape))

    factors = {}
    for loop in range(num_loops):
        k = of_loop(keys, loop)
        decay = None if log_decays is None else of_loop(log_decays, loop)
        factors[0, loop] = Factors(k[:, :, 0], k, k, log_decay=decay, beta=of_loop(betas, loop))
    return replace(trace, factors=factors)


def last_row(trace: LoopTrace) -> pd.Series:
    return loop_transitions(trace).iloc[-1]


def test_orthogonal_reflections_are_the_ideal():
    row = last_row(hand_made(np.eye(4)[:3], [2.0, 2.0, 2.0], [-0.1, -0.2, -0.3]))
    assert (row["rank"], row["absolute_rank"]) == (3, 3)
    assert row["entropy_rank"] == pytest.approx(3)
    assert row["ideal_entropy_rank"] == pytest.approx(3)
    assert row["key_coherence"] == 0
    assert row["decay"] == pytest.approx(np.exp(-0.6))
    assert [row[f"beta_distance_{c}"] for c in (0, 1, 2)] == [2, 1, 0]
    spectrum = loop_spectrum(hand_made(np.eye(4)[:2], [0.5, 1.5], [-0.1, -0.2]))
    both = spectrum[spectrum["num_loops"] == 2]
    np.testing.assert_allclose(both["singular_value"], np.exp(-0.3) * np.array([1.5, 0.5]))
    np.testing.assert_allclose(both["orthogonal_ideal"], both["singular_value"])


def test_the_identity_has_rank_zero_and_an_idle_one_is_seen_as_idle():
    key = np.array([[0.6, 0.8], [0.6, 0.8]])
    row = last_row(hand_made(key, [2.0, 2.0]))
    assert (row["rank"], row["entropy_rank"], row["norm"]) == (0, 0, 0)
    assert row["key_coherence"] == pytest.approx(1)
    idle = last_row(hand_made(np.eye(2), [1e-3, 1e-3]))
    assert (idle["rank"], idle["absolute_rank"]) == (2, 0)


def test_coherence_is_of_the_worst_pair():
    keys = np.array([[1.0, 0, 0], [3, 4, 0], [0, 0, 2]])
    row = last_row(hand_made(keys, [0.5, 0.5, 0.5]))
    assert row["key_coherence"] == pytest.approx(0.6)
    assert row["mean_key_coherence"] == pytest.approx(0.2)
    assert loop_transitions(hand_made(keys[:1], [0.5]))["key_coherence"].isna().all()
    zero = last_row(hand_made(np.array([[0.0, 0], [1, 0]]), [0.5, 0.5]))
    assert zero["key_coherence"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"span": 0}, "span: 0"),
        ({"span": 8}, r"span: 8 is not allowed \(must be in \[1, 7\]\)"),
        ({"rank_tol": -1.0}, "tol: -1.0"),
        ({"absolute_tol": -0.1}, "absolute_tol: -0.1"),
    ],
)
def test_errors_name_the_argument(arguments, message):
    with pytest.raises(ValueError, match=message):
        loop_transitions(trace_of(), **arguments)
