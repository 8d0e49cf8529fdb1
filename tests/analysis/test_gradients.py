"""The loops' contributions against the ordinary gradient and against finite differences."""

import pytest
import torch
from torch.nn import functional as F

from lt2theory.analysis import loop_gradients
from lt2theory.models import LoopedConfig, LoopedModel

TOKENS = torch.randint(0, 5, (3, 9), generator=torch.Generator().manual_seed(0))


def model_of(pattern, **fields):
    config = LoopedConfig(
        vocab_size=5, width=12, num_heads=2, num_layers=2, num_loops=3, pattern=pattern, **fields
    )
    model = LoopedModel(config).double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(0.1 * noise)
    return model


def cross_entropy(trace):
    return F.cross_entropy(trace.logits.flatten(0, 1), trace.tokens.flatten())


@pytest.mark.parametrize(
    ("pattern", "loop_state"),
    [
        ("gdn", "rescan"),
        ("gdn", "accumulate"),
        ("deltanet,full", "accumulate"),
        ("window(3)", "rescan"),
    ],
)
@pytest.mark.parametrize("norm", [False, True])
def test_contributions_sum_to_the_ordinary_gradient(pattern, loop_state, norm):
    model = model_of(pattern, loop_state=loop_state, norm_between_loops=norm)
    cross_entropy(model.trace(TOKENS)).backward()
    ordinary = {
        name: parameter.grad
        for name, parameter in model.named_parameters()
        if name.startswith("blocks.")
    }
    found = loop_gradients(model, TOKENS, cross_entropy)
    assert len(found.weights) == 3
    assert found.weights[0].keys() == ordinary.keys()
    for name, gradient in found.total().items():
        torch.testing.assert_close(gradient, ordinary[name], rtol=1e-9, atol=1e-14)
    table = found.by_loop()
    assert table["share"].sum() == pytest.approx(1, rel=1e-9)
    assert (table["cosine"].abs() <= 1 + 1e-12).all()
    assert (table["norm"] > 0).all()


def test_gradient_of_a_state_is_its_derivative():
    """h^(0) by finite differences in one direction; h^(T) in closed form through the read-out."""
    model = model_of("gdn")
    found = loop_gradients(model, TOKENS, cross_entropy)
    assert len(found.states) == 4
    start = model.embed(TOKENS).detach()
    direction = torch.randn(
        start.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
    )

    def value(h):
        logits = model.read_out(model.run_embedded(h))
        return F.cross_entropy(logits.flatten(0, 1), TOKENS.flatten()).item()

    step = 1e-5
    slope = (value(start + step * direction) - value(start - step * direction)) / (2 * step)
    assert (found.states[0] * direction).sum().item() == pytest.approx(slope, rel=1e-6)
    last = model.run_embedded(start).detach().requires_grad_()
    logits = model.read_out(last)
    F.cross_entropy(logits.flatten(0, 1), TOKENS.flatten()).backward()
    torch.testing.assert_close(found.states[3], last.grad, rtol=1e-10, atol=1e-15)
    table = found.by_state()
    assert table["loops_done"].tolist() == [0, 1, 2, 3]
    assert table["norm"].iloc[3] == pytest.approx(last.grad.norm().item())


def test_a_loss_on_the_first_loop_leaves_later_loops_without_gradient():
    found = loop_gradients(model_of("gdn"), TOKENS, lambda trace: trace.states[1].square().sum())
    norms = found.by_loop()["norm"]
    assert norms[0] > 0
    assert norms[1] == norms[2] == 0
    assert found.states[2].count_nonzero() == found.states[3].count_nonzero() == 0


def test_the_model_is_left_alone():
    model = model_of("gdn").requires_grad_(False)
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    loop_gradients(model, TOKENS, cross_entropy)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name])
        assert parameter.grad is None
        assert not parameter.requires_grad
