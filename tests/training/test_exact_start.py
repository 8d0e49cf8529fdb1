"""The exact `rescan` solution of S3 in the study's own model."""

import pytest
import torch

from lt2theory.experiments.study_words import exact_start
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.models.trace import LoopTrace
from lt2theory.ops.factors import Factors
from lt2theory.training import resolve
from lt2theory.training.exact_start import solve
from lt2theory.training.runtime import Runtime
from lt2theory.training.selection import new_model


def solved(seed: int) -> LoopedModel:
    return new_model(resolve(exact_start(seed)), Runtime.of("cpu", "float32"))


def strengths(trace: LoopTrace, loop: int) -> torch.Tensor:
    factors = trace.factors[0, loop]
    assert isinstance(factors, Factors)
    assert factors.beta is not None
    return factors.beta[:, :, 0]


def words_of(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    batch = exact_start().task.create().batch(stage=length, split="test", size=32)
    return torch.from_numpy(batch.inputs), torch.from_numpy(batch.targets)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("length", [5, 33, 128])
def test_every_prefix_is_answered(seed: int, length: int) -> None:
    words, products = words_of(length)
    with torch.no_grad():
        logits = solved(seed)(words)
    assert (logits.argmax(-1) == products).all()
    right = logits.gather(-1, products[..., None])[..., 0]
    others = logits.scatter(-1, products[..., None], -torch.inf).amax(-1)
    assert (right - others).min() > 5


def test_small_errors_of_the_weights_are_forgiven() -> None:
    words, products = words_of(16)
    model, generator = solved(0), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 3e-5 * torch.randn(parameter.shape, generator=generator).sign()
        assert (model(words).argmax(-1) == products).all()


def test_it_is_the_solution_of_the_theory() -> None:
    """Loop 1 flips a parity, loop 2 applies one full reflection a token, and no other head acts."""
    words, _ = words_of(16)
    with torch.no_grad():
        trace = solved(0).trace(words)
    parity, reflections = (strengths(trace, loop) for loop in range(2))
    assert ((parity[..., 0] == 2) | (parity[..., 0] < 1e-8)).all()
    assert parity[..., 1].max() < 1e-8
    assert (reflections[..., 1] == 2).all()
    assert reflections[..., 0].max() < 1e-8


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loop_state": "accumulate"}, "loop_state: got 'accumulate', allowed is 'rescan'"),
        ({"num_loops": 3}, "num_loops: got 3, allowed is 2"),
        ({"width": 64}, "width: got 64"),
        ({"norm_eps": 1e-5}, "norm_eps: got 1e-05, allowed are numbers >= 0.001"),
    ],
)
def test_other_models_are_refused(changes: dict[str, object], message: str) -> None:
    config = resolve(exact_start())
    model = LoopedConfig.model_validate(config.model.model_dump() | changes)
    with pytest.raises(ValueError, match=message):
        solve(LoopedModel(model))
    with pytest.raises(ValueError, match=message):
        resolve(config.model_copy(update={"model": model}))
