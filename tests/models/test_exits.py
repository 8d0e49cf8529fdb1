"""Exit gates and losses over loops, against distributions and sums written out by hand."""

import math

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.nn import functional as F

from lt2theory.models import LoopedConfig, LoopedModel, loop_loss
from lt2theory.models.exits import divergence_from_equal, exit_log_probabilities, exit_loop

SIZES = {"width": 12, "num_heads": 2, "vocab_size": 7, "num_layers": 1, "num_loops": 3}
GENERATOR = torch.Generator().manual_seed(5)
TOKENS = torch.randint(0, 7, (2, 9), generator=GENERATOR)
TARGETS = torch.randint(0, 7, (2, 9), generator=GENERATOR)
TARGETS[0, :4] = -100


def model_of(**changes: object) -> LoopedModel:
    model = LoopedModel(LoopedConfig.model_validate(SIZES | changes)).double()
    noise = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=noise, dtype=torch.float64)
    return model


@pytest.mark.parametrize("loops", [1, 2, 5])
def test_probabilities_are_products_of_survivals(loops: int) -> None:
    z = torch.randn(loops, 3, 4, generator=GENERATOR, dtype=torch.float64, requires_grad=True)
    left, expected = torch.ones(3, 4, dtype=torch.float64), []
    for loop in range(loops):
        leaves = torch.sigmoid(z[loop]) if loop < loops - 1 else 1 + 0 * z[loop]
        expected.append(left * leaves)
        left = left * (1 - leaves)
    got = exit_log_probabilities(z).exp()
    torch.testing.assert_close(got, torch.stack(expected), atol=1e-14, rtol=1e-12)
    torch.testing.assert_close(got.sum(0), torch.ones_like(left), atol=1e-14, rtol=0)
    weights = torch.randn(got.shape, generator=GENERATOR, dtype=torch.float64)
    (a,) = torch.autograd.grad((got * weights).sum(), z, retain_graph=True)
    (b,) = torch.autograd.grad((torch.stack(expected) * weights).sum(), z)
    torch.testing.assert_close(a, b, atol=1e-14, rtol=1e-10)


def test_extreme_gates_stay_finite() -> None:
    z = torch.tensor([[1e4, -1e4], [0.0, 0.0], [5.0, 5.0]], requires_grad=True)
    log_p = exit_log_probabilities(z)
    away = divergence_from_equal(log_p)
    torch.testing.assert_close(away, torch.tensor([math.log(3), math.log(3 / 2)]))
    away.sum().backward()
    assert z.grad is not None
    assert z.grad.isfinite().all()
    assert exit_log_probabilities(z.bfloat16()).dtype == torch.float32


def test_equal_exits_have_no_divergence() -> None:
    log_p = torch.full((4, 2), 0.25, dtype=torch.float64).log()
    torch.testing.assert_close(divergence_from_equal(log_p), torch.zeros(2, dtype=torch.float64))


@pytest.mark.parametrize(
    ("threshold", "expected"),
    [(0.0, [0, 0, 0]), (0.1, [0, 0, 1]), (0.5, [0, 1, 1]), (0.9, [0, 2, 1]), (1.0, [2, 2, 2])],
)
def test_exit_loop(threshold: float, expected: list[int]) -> None:
    p = torch.tensor([[1.0, 0.4, 0.0], [0.0, 0.4, 1.0], [0.0, 0.2, 0.0]])
    assert exit_loop(p.log(), threshold).tolist() == expected


def test_bad_thresholds() -> None:
    for threshold in (-0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match=r"threshold: .* \(must lie in \[0, 1\]\)"):
            exit_loop(torch.zeros(1, 2), threshold)


def by_loop(model: LoopedModel, *, normed: bool) -> tuple[Tensor, Tensor]:
    """Cross-entropies and gates `[T n]` at the labelled tokens, from the states alone."""
    losses, gates = [], []
    for h in model.loop_states(model.embed(TOKENS))[1:]:
        x = h if normed else F.rms_norm(h, (12,), model.norm.weight, model.config.norm_eps)
        logits = x @ model.head.weight.T
        kept = TARGETS != -100
        losses.append(F.cross_entropy(logits[kept], TARGETS[kept], reduction="none"))
        if model.config.exit_gate:
            gates.append((x @ model.exit_gate.weight[0] + model.exit_gate.bias)[kept])
    return torch.stack(losses), torch.stack(gates) if gates else torch.zeros(0)


@pytest.mark.parametrize("normed", [False, True])
@pytest.mark.parametrize("kind", ["last", "mean", "expected"])
@pytest.mark.parametrize("checkpointing", ["none", "loop"])
def test_loss_and_gradients(kind: str, normed: bool, checkpointing: str) -> None:
    fields = {"loop_loss": kind, "exit_gate": kind == "expected", "exit_entropy": 0.3}
    fields |= {"norm_between_loops": normed, "sandwich_norm": normed}
    got = loop_loss(model := model_of(**fields, checkpointing=checkpointing), TOKENS, TARGETS)
    plain = model_of(**fields)
    losses, gates = by_loop(plain, normed=normed)
    expected = losses[-1].mean() if kind == "last" else losses.mean()
    if kind == "expected":
        first, second = torch.sigmoid(gates[0]), torch.sigmoid(gates[1])
        p = torch.stack([first, (1 - first) * second, (1 - first) * (1 - second)])
        away = math.log(3) + (p * p.log()).sum(0)
        expected = ((p * losses).sum(0) + 0.3 * away).mean()
        torch.testing.assert_close(got.exits, p.mean(1), atol=1e-12, rtol=1e-10)
    torch.testing.assert_close(got.total, expected, atol=1e-12, rtol=1e-12)
    means = losses.mean(1) if kind != "last" else losses[-1:].mean(1)
    torch.testing.assert_close(got.by_loop, means, atol=1e-12, rtol=1e-12)
    assert (got.exits is None) == (kind != "expected")
    got.total.backward()
    expected.backward()
    for (name, a), b in zip(model.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, atol=1e-12, rtol=1e-9, msg=name)


def test_the_last_loop_is_forwards() -> None:
    model = model_of(exit_gate=True)
    states = model.read_loops(TOKENS)
    assert len(states) == 3
    torch.testing.assert_close(model.read_out(states[-1]), model(TOKENS), atol=0, rtol=0)
    with torch.no_grad():
        assert loop_loss(model, TOKENS, TARGETS).total.isfinite()


def test_documents_and_padding_reach_the_loops() -> None:
    model = model_of(loop_loss="mean")
    documents = torch.tensor([[0] * 4 + [1] * 5, [0] * 9])
    whole = loop_loss(model, TOKENS, TARGETS, documents=documents).by_loop
    rows = [loop_loss(model, TOKENS[:1, 4:], TARGETS[:1, 4:]).by_loop * 5]
    rows.append(loop_loss(model, TOKENS[1:], TARGETS[1:]).by_loop * 9)
    torch.testing.assert_close(whole, sum(rows) / 14, atol=1e-12, rtol=1e-12)


def test_refusals() -> None:
    with pytest.raises(ValidationError, match="loop_loss: 'expected' needs exit_gate=True"):
        LoopedConfig(loop_loss="expected")
    with pytest.raises(ValueError, match="exit_gate: False is not allowed"):
        model_of().exit_log_probabilities(model_of().read_loops(TOKENS))
    with pytest.raises(ValueError, match=r"targets: got shape \(2, 8\)"):
        loop_loss(model_of(), TOKENS, TARGETS[:, 1:])


def test_the_gate_starts_even_and_changes_no_other_weight() -> None:
    gated, plain = (LoopedModel(LoopedConfig(exit_gate=gate)) for gate in (True, False))
    assert gated.exit_gate.bias.item() == 0
    for name, value in plain.state_dict().items():
        assert torch.equal(value, gated.state_dict()[name])
