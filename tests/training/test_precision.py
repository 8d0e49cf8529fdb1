"""bfloat16 training: weights, optimiser and recurrence stay wide, and little changes."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.models import LoopedConfig, LoopedModel, presets, toys
from lt2theory.ops.factors import Factors
from lt2theory.training import OptimiserConfig, Runtime
from lt2theory.training.optimiser import make_optimiser, train_step
from tasks import Batch
from tests.conformance.table import mixer_of_preset

EVERY = sorted(toys())
SMALL = {"width": 32, "num_heads": 2, "vocab_size": 11, "window": 5}


def small(preset: str) -> LoopedModel:
    """A float32 model away from its start, where the mixers would hardly reach the logits."""
    config = LoopedConfig.model_validate({**presets()[preset].model_dump(), **SMALL})
    model, noise = LoopedModel(config), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn(parameter.shape, generator=noise)
    return model


def batch(seed: int = 0) -> Batch:
    inputs = np.random.default_rng(seed).integers(11, size=(4, 23))
    return Batch(inputs, np.roll(inputs, 1, axis=1), np.ones(inputs.shape, dtype=bool))


def outcome(model: LoopedModel, dtype: str) -> tuple[Tensor, Tensor]:
    """Logits and the whole gradient, in float64."""
    runtime = Runtime.of("cpu", dtype)
    tokens, targets, _ = (runtime.tensor(array) for array in batch())
    model.zero_grad()
    with runtime.autocast():
        logits = model(tokens)
    assert logits.dtype == getattr(torch, dtype)
    F.cross_entropy(logits.float().flatten(0, 1), targets.flatten()).backward()
    gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return logits.detach().double(), torch.cat(gradients).double()


@pytest.mark.conforms("bfloat16", mixer=mixer_of_preset, backend="auto")
@pytest.mark.parametrize("preset", EVERY)
def test_autocast_costs_twice_the_rounding_of_the_weights(preset: str) -> None:
    """A product rounds both its operands; the yardstick rounds one of them, the weights, once."""
    exact = outcome(small(preset), "float32")
    half = outcome(small(preset), "bfloat16")
    model = small(preset)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.bfloat16())
    rounded = outcome(model, "float32")
    for want, got, yardstick in zip(exact, half, rounded, strict=True):
        assert (got - want).norm() < 2 * (yardstick - want).norm()


@pytest.mark.parametrize("preset", EVERY)
def test_what_is_narrow_and_what_is_not(preset: str) -> None:
    model, runtime = small(preset), Runtime.of("cpu", "bfloat16")
    with runtime.autocast():
        trace = model.trace(runtime.tensor(batch().inputs))
    assert trace.logits.dtype == torch.bfloat16
    assert {x.dtype for x in trace.states} == {torch.float32}  # the residual stream adds in float32
    for place, prepared in trace.factors.items():
        held = [x for x in vars(prepared).values() if isinstance(x, Tensor)]
        if isinstance(prepared, Factors):
            assert {x.dtype for x in held} == {torch.float32}, place


@pytest.mark.parametrize("preset", EVERY)
def test_weights_gradients_and_moments_stay_float32(preset: str) -> None:
    model, runtime = small(preset), Runtime.of("cpu", "bfloat16")
    optimiser = make_optimiser(model, OptimiserConfig(learning_rate=1e-3))
    before = [p.detach().clone() for p in model.parameters()]
    for step in range(3):
        result = train_step(
            model, optimiser, batch(step), learning_rate=1e-3, clip=1.0, runtime=runtime
        )
        assert math.isfinite(result.loss)
        assert math.isfinite(result.gradient_norm)
    moments = [x for state in optimiser.state.values() for x in state.values()]
    assert len(moments) >= 2 * len(before)
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    assert {x.dtype for x in (*moments, *gradients, *model.parameters())} == {torch.float32}
    for parameter, old in zip(model.parameters(), before, strict=True):
        assert not torch.equal(parameter, old)
