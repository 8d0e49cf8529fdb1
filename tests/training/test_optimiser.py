import math
from typing import Any

import numpy as np
import pytest
import torch

from lt2theory.models import LoopedModel
from lt2theory.training import OptimiserConfig, Runtime, resolve
from lt2theory.training.draws import training_batch
from lt2theory.training.optimiser import (
    DivergenceError,
    learning_rate_factor,
    make_optimiser,
    masked_loss,
    train_step,
)
from lt2theory.training.selection import new_model
from tasks import Batch

CPU = Runtime(torch.device("cpu"))


@pytest.fixture
def model(make_config: Any) -> LoopedModel:
    return new_model(resolve(make_config()), CPU)


@pytest.fixture
def batch(make_config: Any) -> Batch:
    config = make_config()
    return training_batch(config.task.create(), config, 13, 0)


def factors(schedule: Any, budget: int = 101, **changes: Any) -> list[float]:
    config = OptimiserConfig(schedule=schedule, warmup_steps=10, final_fraction=0.2, **changes)
    return [learning_rate_factor(config, step, budget) for step in range(budget)]


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine"])
def test_schedules_rise_linearly_and_peak_at_one(schedule: str) -> None:
    found = factors(schedule)
    assert found[:10] == pytest.approx([0.1 * k for k in range(1, 11)])
    assert max(found) == 1.0
    assert found[10] == 1.0


def test_courses_equal_their_formulae() -> None:
    assert factors("constant")[10:] == [1.0] * 91
    done = np.linspace(0, 1, 91)
    np.testing.assert_allclose(factors("linear")[10:], 1 - 0.8 * done, rtol=1e-12)
    cosine = 0.2 + 0.8 * (1 + np.cos(math.pi * done)) / 2
    np.testing.assert_allclose(factors("cosine")[10:], cosine, rtol=1e-12)


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
def test_short_budgets_stay_in_range(schedule: Any) -> None:
    for budget in (1, 2, 10, 11, 12):
        found = factors(schedule, budget)
        assert all(0 < factor <= 1 for factor in found)
    assert learning_rate_factor(OptimiserConfig(warmup_steps=0), 0, 1) == 1.0


def test_loss_is_the_mean_over_labels_only() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 5, 7, generator=generator)
    targets = torch.randint(7, (3, 5), generator=generator)
    mask = torch.rand(3, 5, generator=generator) < 0.5
    expected = [-logits[i, j].log_softmax(-1)[targets[i, j]] for i, j in mask.nonzero().tolist()]
    torch.testing.assert_close(masked_loss(logits, targets, mask), torch.stack(expected).mean())


def test_only_matrices_decay(model: LoopedModel) -> None:
    optimiser = make_optimiser(model, OptimiserConfig(weight_decay=0.5))
    decays = {
        id(p): group["weight_decay"] for group in optimiser.param_groups for p in group["params"]
    }
    assert len(decays) == len(list(model.parameters()))
    for parameter in model.parameters():
        assert decays[id(parameter)] == (0.5 if parameter.dim() >= 2 else 0.0)


def test_a_step_equals_adamw_written_out(model: LoopedModel, batch: Batch) -> None:
    config = OptimiserConfig(weight_decay=0.1, betas=(0.8, 0.9))
    inputs, targets, mask = (torch.from_numpy(array) for array in batch)
    masked_loss(model(inputs), targets, mask).backward()
    before = [p.detach().clone() for p in model.parameters()]
    gradients = [
        torch.zeros_like(p) if p.grad is None else p.grad.clone() for p in model.parameters()
    ]
    norm = torch.sqrt(sum(g.square().sum() for g in gradients))  # type: ignore[arg-type]
    clip = norm.item() / 2
    result = train_step(
        model, make_optimiser(model, config), batch, learning_rate=0.01, clip=clip, runtime=CPU
    )
    assert result.gradient_norm == pytest.approx(norm.item(), rel=1e-5)
    for old, new, gradient in zip(before, model.parameters(), gradients, strict=True):
        clipped = gradient * clip / (norm + 1e-6)
        # After one step both bias-corrected moments are the gradient and its square.
        moved = clipped / (clipped.abs() + 1e-8)
        decay = 0.1 if old.dim() >= 2 else 0.0
        torch.testing.assert_close(
            new.detach(), old * (1 - 0.01 * decay) - 0.01 * moved, rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("clip", [None, 1.0])
def test_divergence_leaves_model_and_optimiser_alone(
    model: LoopedModel, batch: Batch, clip: float | None
) -> None:
    optimiser = make_optimiser(model, OptimiserConfig())
    with torch.no_grad():
        model.norm.weight[0] = torch.nan
    before = [p.detach().clone() for p in model.parameters()]
    with pytest.raises(DivergenceError, match="the loss is nan"):
        train_step(model, optimiser, batch, learning_rate=0.1, clip=clip, runtime=CPU)
    for old, new in zip(before, model.parameters(), strict=True):
        torch.testing.assert_close(old, new.detach(), equal_nan=True)
    assert not optimiser.state


def test_an_infinite_gradient_is_divergence(model: LoopedModel, batch: Batch) -> None:
    model.norm.weight.register_hook(lambda gradient: gradient * torch.inf)
    with pytest.raises(DivergenceError, match=r"the gradient norm is (inf|nan)"):
        train_step(
            model,
            make_optimiser(model, OptimiserConfig()),
            batch,
            learning_rate=0.1,
            clip=1.0,
            runtime=CPU,
        )


def test_bfloat16_keeps_float32_weights(model: LoopedModel, batch: Batch) -> None:
    runtime = Runtime.of("cpu", "bfloat16")
    inputs, targets, mask = (torch.from_numpy(array) for array in batch)
    with torch.no_grad():
        exact = masked_loss(model(inputs), targets, mask).item()
    optimiser = make_optimiser(model, OptimiserConfig())
    result = train_step(model, optimiser, batch, learning_rate=0.01, clip=1.0, runtime=runtime)
    assert all(p.dtype == torch.float32 for p in model.parameters())
    assert result.loss != exact
    assert result.loss == pytest.approx(exact, rel=0.05)
