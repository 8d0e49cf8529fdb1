"""A reading of the instruments against the analyses of a trace, and what it costs."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from lt2theory.analysis import block_rms, first_token_mass, loop_gradients, loop_transitions
from lt2theory.analysis.stability_reading import read_stability
from lt2theory.models import LoopedConfig, LoopedModel


def small_model(pattern="gdn,full", **fields):
    settings = {
        "vocab_size": 11,
        "width": 16,
        "num_heads": 2,
        "num_layers": 2,
        "num_loops": 3,
        "pattern": pattern,
        "conv_width": 2,
        **fields,
    }
    model = LoopedModel(LoopedConfig.model_validate(settings)).double()
    with torch.no_grad():  # a gate of zero would let nothing of a loop's start through
        for name, parameter in model.named_parameters():
            if "loop_gate" in name:
                parameter.fill_(0.1)
    return model


def windows(size=2, length=13):
    g = torch.Generator().manual_seed(0)
    return (torch.randint(0, 11, (size, length), generator=g) for _ in range(2))


def reading_of(model, documents=None):
    tokens, targets = windows()

    def loss():
        logits = model(tokens, documents=documents)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    return read_stability(model, loss)


def curves(reading, name):
    (found,) = [p for p in reading.profiles if name in p.curves]
    return dict(zip(found.positions, found.curves[name], strict=True))


@pytest.mark.parametrize("checkpointing", ["none", "loop", "block"])
@pytest.mark.parametrize("loop_state", ["rescan", "accumulate"])
def test_a_reading_says_what_analyses_of_a_trace_say(loop_state, checkpointing):
    model = small_model(loop_state=loop_state, checkpointing=checkpointing)
    reading = reading_of(model)
    tokens, targets = windows()
    trace = model.trace(tokens)
    rms = block_rms(trace)
    later = rms[rms["token"] > 0].groupby(["loop", "layer"])
    for name in ("rms", "update_rms"):
        expected = later[name].median().to_numpy()
        np.testing.assert_allclose(list(curves(reading, name).values()), expected, rtol=1e-5)
    first = rms[rms["token"] == 0].groupby(["loop", "layer"])["rms"].median()
    np.testing.assert_allclose(list(curves(reading, "first_rms").values()), first, rtol=1e-5)
    blocks = rms.groupby(["loop", "layer"])
    peaks = blocks["peak"].max() / blocks["rms"].apply(lambda x: np.sqrt((x**2).mean()))
    np.testing.assert_allclose(list(curves(reading, "massive").values()), peaks, rtol=1e-5)
    mass = first_token_mass(trace).query("kind == 'attention'")
    by_place = mass.groupby("loop")["mass"]
    found = curves(reading, "first_token_mass")
    assert list(found) == [1, 3, 5]
    np.testing.assert_allclose(list(found.values()), by_place.mean(), rtol=1e-5)
    found = curves(reading, "first_token_mass_head")
    np.testing.assert_allclose(list(found.values()), by_place.max(), rtol=1e-5)
    last = loop_transitions(trace).query("num_loops == 3")
    for name in ("key_coherence", "mean_key_coherence"):
        assert curves(reading, name) == {0: pytest.approx(last[name].mean(), rel=1e-5)}

    def loss(trace):
        return F.cross_entropy(trace.logits.flatten(0, 1), targets.flatten())

    norms = loop_gradients(model, tokens, loss).by_loop()["norm"]
    found = [reading.metrics[f"gradient_norm_loop_{loop}"] for loop in (1, 2, 3)]
    np.testing.assert_allclose(found, norms, rtol=1e-5)
    squares = np.square(list(curves(reading, "gradient_norm").values()))
    np.testing.assert_allclose(squares.reshape(3, 2).sum(1), norms**2, rtol=1e-4)


def test_the_loops_entries_and_gates():
    model = small_model("gdn")
    reading = reading_of(model)
    tokens, _ = windows()
    trace = model.trace(tokens)
    for loop, value in curves(reading, "entry_rms").items():
        rms = trace.states[loop].square().mean(-1).sqrt()[:, 1:]
        assert value == pytest.approx(np.median(rms.detach().numpy()), rel=1e-5)
    for loop in range(3):
        for name, read in (("beta", "beta"), ("alpha", "log_decay")):
            values = [getattr(trace.factors[layer, loop], read) for layer in range(2)]
            values = [x.exp() if name == "alpha" else x for x in values]
            share = curves(reading, f"{name}_loop_{loop + 1}")
            assert sum(share.values()) == pytest.approx(1, abs=1e-5)
            found = curves(reading, name)
            for layer, x in enumerate(values):
                assert found[2 * loop + layer] == pytest.approx(x.mean().item(), rel=1e-5)
    middle = sum(x for place, x in curves(reading, "beta_loop_1").items() if 2 <= place < 8)
    assert middle > 0.9  # an untrained beta is near one half


def test_documents_are_streams_of_their_own():
    model = small_model("full")
    documents = torch.tensor([[0] * 6 + [1] * 7] * 2)
    reading = reading_of(model, documents)
    tokens, _ = windows()
    parts = [first_token_mass(model.trace(tokens[:, part])) for part in (slice(6), slice(6, 13))]
    means = [part.groupby(["loop", "layer"])["mass"].mean().to_numpy() for part in parts]
    expected = (5 * means[0] + 6 * means[1]) / 11
    found = list(curves(reading, "first_token_mass").values())
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_model_stays_as_it_is():
    model = small_model()
    tokens, _ = windows()
    before = model(tokens)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    reading_of(model)
    assert model.watch is None
    assert all((p.grad == 1).all() for p in model.parameters())
    torch.testing.assert_close(model(tokens), before, rtol=0, atol=0)


def test_a_failing_pass_leaves_no_watch():
    model = small_model()
    with pytest.raises(ValueError, match="tokens"):
        read_stability(model, lambda: model(torch.tensor([[99]])).sum())
    assert model.watch is None


def test_records_hold_numbers_only():
    model = small_model()
    with torch.no_grad():
        model.blocks[1].mixer.q_proj.weight[0, 0] = torch.nan
    reading = reading_of(model)
    assert set(curves(reading, "rms").values()) != {None}
    assert None in curves(reading, "first_token_mass").values()
    first, *others = reading.records(7)
    assert first == {"split": "stability", "step": 7, "metrics": reading.metrics}
    assert all(len(x) == len(o["positions"]) for o in others for x in o["curves"].values())


@pytest.mark.parametrize("checkpointing", ["none", "loop"])
def test_a_reading_costs_little_more_than_a_step_on_its_windows(checkpointing):
    """So one window in 32, every 50 steps, costs less than 1/1000 of training."""
    model = small_model("gdn,full", width=64, checkpointing=checkpointing).float()
    tokens, targets = windows(size=1, length=128)

    def loss():
        logits = model(tokens)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    with FlopCounterMode(display=False) as step:
        loss().backward()
    with FlopCounterMode(display=False) as reading:
        read_stability(model, loss)
    assert reading.get_total_flops() < 1.15 * step.get_total_flops()
