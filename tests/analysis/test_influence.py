"""Measured influence against full Jacobians, and its support against the reach graph (W7)."""

import numpy as np
import pytest
import torch

from lt2theory.analysis import (
    distance_quantile,
    layer_graph,
    measured_influence,
    reach,
    reach_graph,
)
from lt2theory.models import LoopedConfig, LoopedModel


def model_of(pattern="window", num_layers=2, num_loops=2, window=3, **fields) -> LoopedModel:
    config = LoopedConfig(
        vocab_size=5,
        width=8,
        num_heads=2,
        num_layers=num_layers,
        num_loops=num_loops,
        pattern=pattern,
        window=window,
        **{"backend": "reference", **fields},
    )
    return LoopedModel(config).double()


def tokens_of(length: int, batch: int = 2) -> torch.Tensor:
    return torch.randint(0, 5, (batch, length), generator=torch.Generator().manual_seed(1))


def dense_norms(model, tokens, position, read_out=None) -> np.ndarray:
    """Frobenius norms by distance from the whole Jacobian of the whole sequence."""

    def output(x):
        hidden = model.run_embedded(x)[:, position : position + 1]
        return hidden if read_out is None else read_out(hidden)

    norms = []
    for row in tokens:
        x = model.embed(row[None]).detach()
        jacobian = torch.autograd.functional.jacobian(output, x)[0, 0, :, 0]
        norms.append(jacobian.square().sum((0, 2)).sqrt())
    whole = torch.stack(norms)
    assert (whole[:, position + 1 :] == 0).all()
    return whole[:, : position + 1].flip(-1).numpy()


@pytest.mark.parametrize("pattern", ["window", "full", "gdn", "window,kda"])
@pytest.mark.parametrize("chunk", [1, 3, 64])
def test_exact_norm_equals_the_full_jacobian(pattern, chunk):
    model, tokens = model_of(pattern), tokens_of(9)
    influence = measured_influence(model, tokens, 6, chunk=chunk)
    np.testing.assert_allclose(influence.norm, dense_norms(model, tokens, 6), rtol=1e-8, atol=1e-13)
    assert (influence.position, influence.num_cotangents, influence.is_exact) == (6, 8, True)


def test_logits_by_a_read_out():
    model, tokens = model_of(), tokens_of(7)
    influence = measured_influence(model, tokens, 6, read_out=model.read_out)
    assert influence.num_cotangents == 5
    expected = dense_norms(model, tokens, 6, model.read_out)
    np.testing.assert_allclose(influence.norm, expected, rtol=1e-8, atol=1e-13)


@pytest.mark.parametrize("backend", ["reference", "chunked"])
@pytest.mark.parametrize("window", [1, 2, 3, 4])
@pytest.mark.parametrize(("num_layers", "num_loops"), [(1, 1), (1, 4), (2, 2), (2, 3), (6, 1)])
def test_w7_support_is_the_reach_graph(window, num_layers, num_loops, backend):
    model = model_of("window", num_layers, num_loops, window, backend=backend)
    length = 22
    graph = reach_graph([layer_graph(length, window)] * num_layers, num_loops)
    for position in (0, 5, length - 1):
        influence = measured_influence(model, tokens_of(length), position, chunk=8)
        expected = np.broadcast_to(graph[position, : position + 1][::-1], (2, position + 1))
        np.testing.assert_array_equal(influence.support, expected)
        law = reach(num_layers, num_loops, window, num_tokens=position + 1)
        assert influence.reach.tolist() == [law, law]


def test_w2_one_linear_layer_makes_it_unbounded():
    influence = measured_influence(model_of("window,gdn", 2, 1, 2), tokens_of(20), 19)
    assert influence.reach.tolist() == [20, 20]
    assert influence.support.all()


def test_probes_estimate_the_exact_norm():
    model, tokens = model_of("window,gdn"), tokens_of(8)
    exact = measured_influence(model, tokens, 7)
    generator = torch.Generator().manual_seed(3)
    probed = measured_influence(model, tokens, 7, num_probes=800, generator=generator, chunk=100)
    assert (probed.num_cotangents, probed.is_exact) == (800, False)
    np.testing.assert_array_equal(probed.support, exact.support)
    # The relative deviation of |g J|^2 is at most sqrt(2), so that of a mean of 800 is at most
    # 5 %; four deviations on each of the numbers.
    np.testing.assert_allclose(probed.norm**2, exact.norm**2, rtol=0.2)


def test_probes_come_from_the_generator_alone():
    model, tokens = model_of(), tokens_of(6)
    norms = []
    for seed, chunk in ((0, 4), (0, 4), (1, 4)):
        generator = torch.Generator().manual_seed(seed)
        before = torch.get_rng_state()
        influence = measured_influence(
            model, tokens, 5, num_probes=4, generator=generator, chunk=chunk
        )
        assert torch.equal(torch.get_rng_state(), before)
        norms.append(influence.norm)
    np.testing.assert_array_equal(norms[0], norms[1])
    assert not np.array_equal(norms[0], norms[2])


def test_share_and_quantiles_average_over_the_batch():
    influence = measured_influence(model_of(), tokens_of(10), 9)
    share = (influence.norm / influence.norm.sum(-1, keepdims=True)).mean(0)
    np.testing.assert_allclose(influence.share, share, rtol=1e-12)
    assert influence.share.sum() == pytest.approx(1)
    assert influence.quantile(0.9) == distance_quantile(share, 0.9)
    assert influence.quantile(1) <= influence.reach.max() - 1


def test_parameters_and_gradients_are_left_alone():
    model = model_of()
    measured_influence(model, tokens_of(5), 4)
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"position": 5}, r"position: 5 is not allowed \(must be in \[0, 4\]\)"),
        ({"position": -1}, "position: -1"),
        ({"chunk": 0}, "chunk: 0"),
        ({"num_probes": 0}, "num_probes: 0"),
        ({"num_probes": 2}, "generator: None"),
    ],
)
def test_errors_name_the_argument(arguments, message):
    with pytest.raises(ValueError, match=message):
        measured_influence(model_of(), tokens_of(5), **{"position": 4, **arguments})


def test_inference_mode_changes_nothing():
    model, tokens = model_of(), tokens_of(5)
    expected = measured_influence(model, tokens, 4)
    with torch.inference_mode():
        found = measured_influence(model, tokens, 4)
    np.testing.assert_array_equal(found.norm, expected.norm)
    np.testing.assert_array_equal(found.support, expected.support)


def test_tokens_outside_the_vocabulary_are_refused():
    with pytest.raises(ValueError, match="tokens: id 9999 is outside the vocabulary"):
        measured_influence(model_of(), torch.full((1, 5), 9999), 4)
