"""Steps from buffers against steps one by one: the same weights, signals, divergences and runs."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

import tasks
from lt2theory.models import LoopedConfig
from lt2theory.training import (
    CurriculumConfig,
    Interrupted,
    OptimiserConfig,
    Runtime,
    resolve,
    run_curriculum,
)
from lt2theory.training.checkpoint import pack, unpack
from lt2theory.training.draws import training_batch
from lt2theory.training.optimiser import (
    DivergenceError,
    masked_loss,
    masked_loss_of_fixed_shape,
)
from lt2theory.training.selection import new_model, select_learning_rate
from lt2theory.training.stepper import GraphStepper, Stepper, make_stepper
from lt2theory.training.train_state import TrainState
from tasks import Batch

CPU = Runtime(torch.device("cpu"))
EXACT = OptimiserConfig(learning_rate=2**-7, warmup_steps=4, schedule="constant")
"""Rates that are the same numbers in float32, as a graph reads them, and in float64."""


def steppers(config: CurriculumConfig) -> tuple[Stepper, GraphStepper]:
    config = resolve(config)
    return (
        Stepper(new_model(config, CPU), config, CPU),
        GraphStepper(new_model(config, CPU), config, CPU),
    )


def batches(config: CurriculumConfig, stage: int, count: int) -> list[Batch]:
    task = config.task.create()
    return [training_batch(task, config, stage, step) for step in range(count)]


def weights(stepper: Stepper) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in stepper.model.named_parameters()}


def test_the_loss_of_fixed_shape_has_the_value_and_gradient_of_the_masked_one() -> None:
    generator = torch.Generator().manual_seed(0)
    mask = torch.rand(3, 7, generator=generator) < 0.4
    # Where there is no label a target may be anything.
    targets = torch.randint(5, (3, 7), generator=generator)
    found = []
    for loss in (masked_loss, masked_loss_of_fixed_shape):
        logits = torch.randn(3, 7, 5, generator=generator.manual_seed(1)).requires_grad_()
        value = loss(logits, targets, mask)
        found.append((value, *torch.autograd.grad(value, logits)))
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("clip", [None, 0.3])
def test_both_take_the_same_steps(make_config: Any, clip: float | None) -> None:
    config = make_config(optimiser=OptimiserConfig(clip=clip, weight_decay=0.1))
    plain, graph = steppers(config)
    rates = [1e-2, 3e-3, 1e-3, 5e-3]
    stages = [*batches(config, 12, 2), *batches(config, 16, 2)]  # the shape changes in between
    seen = []
    for batch, rate in zip(stages, rates, strict=True):
        plain.take(batch, rate)
        seen += list(plain.results())
        graph.take(batch, rate)
    assert (plain.pending, graph.pending) == (0, 4)
    for one, other in zip(seen, graph.results(), strict=True):
        assert other.loss == pytest.approx(one.loss, rel=1e-5)
        assert other.gradient_norm == pytest.approx(one.gradient_norm, rel=1e-5)
    assert graph.pending == 0
    torch.testing.assert_close(weights(graph), weights(plain), rtol=1e-5, atol=1e-6)


def test_auxiliary_losses_are_seen_and_trained(make_config: Any) -> None:
    model = LoopedConfig(width=16, num_heads=2, num_layers=1, pattern="dsa", top_k=4)
    config = make_config(model=model)
    plain, graph = steppers(config)
    for batch in batches(config, 12, 3):
        plain.take(batch, 1e-2)
        graph.take(batch, 1e-2)
    pairs = list(zip(plain.results(), graph.results(), strict=True))
    assert len(pairs) == 3
    for one, other in pairs:
        assert other.auxiliary["indexer"] == pytest.approx(one.auxiliary["indexer"], rel=1e-5)
    torch.testing.assert_close(weights(graph), weights(plain), rtol=1e-5, atol=1e-6)


def test_nothing_changes_from_a_divergence_on(make_config: Any) -> None:
    config = make_config()
    _, graph = steppers(config)
    first, second, third, fourth = batches(config, 12, 4)
    graph.take(first, 1e-2)
    scale = graph.model.norm.weight
    kept = scale.detach().clone()
    with torch.no_grad():
        scale[0] = torch.nan
    before = weights(graph)
    moments = pack(graph.model, graph.optimiser, TrainState())["optimiser.safetensors"]
    graph.take(second, 1e-2)
    torch.testing.assert_close(weights(graph), before, equal_nan=True)
    with torch.no_grad():
        scale.copy_(kept)
    for batch in (third, fourth):  # finite again, and still without effect
        graph.take(batch, 1e-2)
    torch.testing.assert_close(weights(graph), before | {"norm.weight": kept})
    assert pack(graph.model, graph.optimiser, TrainState())["optimiser.safetensors"] == moments
    results = graph.results()
    assert next(results).loss > 0
    with pytest.raises(DivergenceError, match="the loss is nan"):
        next(results)


def test_their_checkpoints_fit_each_other(make_config: Any, tmp_path: Path) -> None:
    config = make_config()
    before, (last,) = batches(config, 12, 4)[:3], batches(config, 12, 4)[3:]
    for number, (one, other) in enumerate([(0, 1), (1, 0)]):
        begun, undisturbed, goes_on = (steppers(config)[k] for k in (one, one, other))
        for batch in before:
            begun.take(batch, 1e-2)
            undisturbed.take(batch, 1e-2)
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, content in pack(begun.model, begun.optimiser, TrainState()).items():
            (folder / name).write_bytes(content)
        unpack(folder, goes_on.model, goes_on.optimiser)
        for stepper in (undisturbed, goes_on):
            stepper.take(last, 1e-2)
        torch.testing.assert_close(weights(goes_on), weights(undisturbed), rtol=1e-5, atol=1e-6)


@pytest.fixture
def from_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs take their steps from buffers, as under cuda_graph."""
    for module in ("trainer", "selection"):
        monkeypatch.setattr(
            f"lt2theory.training.{module}.make_stepper",
            lambda config, model, runtime: GraphStepper(model, config, runtime),
        )


@pytest.mark.parametrize(
    "changes",
    [
        {"evaluate_every": 20, "checkpoint_every": 15},
        {"evaluate_every": 60, "checkpoint_every": 1000, "pass_mark": 1.0},
        {"optimiser": OptimiserConfig(learning_rate=1e30, clip=None, schedule="constant")},
    ],
    ids=["solved", "spent", "diverged"],
)
def test_a_run_is_the_same(
    make_config: Any,
    tmp_path: Path,
    results: Any,
    changes: dict[str, Any],
    request: pytest.FixtureRequest,
) -> None:
    config = make_config(**{"optimiser": EXACT} | changes)
    run_curriculum(config, tmp_path / "one by one")
    request.getfixturevalue("from_buffers")
    run_curriculum(config, tmp_path / "from buffers")
    assert results(tmp_path / "from buffers") == results(tmp_path / "one by one")


@pytest.mark.usefixtures("from_buffers")
def test_a_run_that_is_told_to_stop_goes_on_to_the_same_bytes(
    make_config: Any, tmp_path: Path, results: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_config(evaluate_every=40, checkpoint_every=1000)
    run_curriculum(config, tmp_path / "whole")
    count, take = [], GraphStepper.take

    def stops(self: GraphStepper, *args: Any) -> None:
        take(self, *args)
        count.append(1)
        if len(count) == 27:  # between two readings
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(GraphStepper, "take", stops)
        with pytest.raises(Interrupted):
            run_curriculum(config, tmp_path / "parts")
    run_curriculum(config, tmp_path / "parts")
    assert results(tmp_path / "parts") == results(tmp_path / "whole")


def test_a_choice_of_rates_is_the_same(make_config: Any, request: pytest.FixtureRequest) -> None:
    config = make_config(optimiser=EXACT, learning_rates=(2**-7, 1e30), selection_steps=40)
    plain = select_learning_rate(config)
    assert [trial.diverged for trial in plain[1]] == [False, True]
    request.getfixturevalue("from_buffers")
    assert select_learning_rate(config) == plain


def test_a_graph_needs_a_gpu(make_config: Any) -> None:
    message = "cuda_graph: got True with device='cpu'; allowed with device='cuda' only"
    with pytest.raises(ValueError, match=message):
        make_config(cuda_graph=True)


def test_compiling_needs_a_compiler(make_config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    config = resolve(make_config(compile=True))
    model = new_model(config, CPU)
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ValueError, match=r"compile: got True, but .* 'no-such-compiler'"):
        make_stepper(config, model, CPU)
    assert not model.compiled


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("loop_state", ["rescan", "accumulate"])
def test_a_graph_takes_the_same_steps(make_config: Any, dtype: str, loop_state: str) -> None:
    model = LoopedConfig(width=32, num_heads=2, num_loops=2, loop_state=loop_state)
    config = resolve(make_config(model=model, device="cuda", dtype=dtype, batch_size=8))
    runtime = Runtime.of("cuda", config.dtype)
    task = tasks.create("parity")
    found = []
    for kind in (Stepper, GraphStepper, GraphStepper):  # the last finds all compiled
        stepper = kind(new_model(config, runtime), config, runtime)
        losses = []
        for stage, steps in ((12, 3), (37, 3)):
            for step in range(steps):
                stepper.take(training_batch(task, config, stage, step), 1e-3)
            losses += [result.loss for result in stepper.results()]
        found.append((losses, weights(stepper)))
    for graph in found[1:]:
        assert graph[0] == pytest.approx(found[0][0], rel=1e-2 if dtype == "bfloat16" else 1e-4)
        torch.testing.assert_close(graph[1], found[0][1], rtol=1e-2, atol=1e-3)
