"""Losses that parts of the model have of their own: DeepSeek sparse attention's indexer."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import tasks
from lt2theory.analysis import selected_mass
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.training import Interrupted, OptimiserConfig, Runtime, run_curriculum
from lt2theory.training.optimiser import DivergenceError, make_optimiser, train_step

CPU = Runtime(torch.device("cpu"))
RECALL = tasks.create("mqar", vocab=32)
STAGE, STEPS = 8, 120


def model_of(**changes: Any) -> LoopedModel:
    fields: dict[str, Any] = {
        "pattern": "gdn,dsa",
        "num_layers": 2,
        "width": 32,
        "num_heads": 2,
        "vocab_size": RECALL.vocab_size,
        "top_k": 32,
    }
    generator = torch.Generator().manual_seed(2)
    return LoopedModel(LoopedConfig(**fields | changes), generator=generator)


def trained(auxiliary_weight: float) -> tuple[LoopedModel, list[float]]:
    """Attends to every key, as in the report's warm-up; no clipping, which joins all gradients."""
    model, losses = model_of(), []
    optimiser = make_optimiser(model, OptimiserConfig())
    for step in range(STEPS):
        result = train_step(
            model,
            optimiser,
            RECALL.batch(stage=STAGE, split="train", seed=2, index=step, size=32),
            learning_rate=3e-3 * min(1.0, (step + 1) / 20),
            clip=None,
            runtime=CPU,
            auxiliary_weight=auxiliary_weight,
        )
        losses.append(result.loss)
        assert set(result.auxiliary) == ({"indexer"} if auxiliary_weight else set())
    return model, losses


def masses(model: LoopedModel) -> dict[str, float]:
    batch = RECALL.batch(stage=STAGE, split="eval", seed=0, index=0, size=64)
    (row,) = selected_mass(model.trace(torch.from_numpy(batch.inputs)), top_k=2).to_dict("records")
    return row


def indexer(model: LoopedModel) -> dict[str, Tensor]:
    return {name: x for name, x in model.state_dict().items() if ".index_" in name}


def test_an_indexer_learns_by_its_own_loss_alone() -> None:
    """On multi-query recall, with the attention learnt by the language-model loss beside it."""
    start = model_of()
    with_loss, losses = trained(1.0)
    without, same_losses = trained(0.0)
    # The indexer's loss touches nothing else, and the other one does not touch the indexer.
    assert losses == same_losses
    for name, value in with_loss.state_dict().items():
        assert torch.equal(value, without.state_dict()[name]) == (".index_" not in name), name
    for name, value in indexer(start).items():
        assert torch.equal(value, indexer(without)[name]), name
    # The attention has become selective, and an untrained indexer knows nothing of it.
    found, missed = masses(with_loss), masses(without)
    assert found["largest"] == missed["largest"] > 3 * found["chance"]
    assert missed["selected"] < 1.3 * missed["chance"]
    assert found["selected"] > 0.95 * found["largest"]


@pytest.fixture
def dsa_config(make_config: Any) -> Any:
    model = LoopedConfig(width=16, num_layers=1, num_heads=2, pattern="dsa", top_k=4)

    def make(auxiliary_weight: float) -> Any:
        optimiser = OptimiserConfig(auxiliary_weight=auxiliary_weight, warmup_steps=5)
        return make_config(model=model, optimiser=optimiser, pass_mark=1.0, stages=(12,))

    return make


def train_metrics(folder: Path) -> list[dict[str, float]]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [line["metrics"] for line in lines if line["split"] == "train"]


def test_runs_record_the_loss_in_a_column_of_its_own(tmp_path: Path, dsa_config: Any) -> None:
    run_curriculum(dsa_config(1.0), tmp_path / "with")
    run_curriculum(dsa_config(0.0), tmp_path / "without")
    lines = train_metrics(tmp_path / "with")
    assert len(lines) == 3
    assert all(line["indexer_loss"] > 0 for line in lines)
    assert all("indexer_loss" not in line for line in train_metrics(tmp_path / "without"))


def test_the_column_is_the_mean_of_the_steps(
    tmp_path: Path, dsa_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[float] = []

    def step(*args: Any, **settings: Any) -> Any:
        result = train_step(*args, **settings)
        steps.append(result.auxiliary["indexer"])
        return result

    monkeypatch.setattr("lt2theory.training.stepper.train_step", step)
    run_curriculum(dsa_config(1.0), tmp_path / "run")
    means = [sum(steps[k : k + 20]) / 20 for k in (0, 20, 40)]
    found = [line["indexer_loss"] for line in train_metrics(tmp_path / "run")]
    assert found == pytest.approx(means, rel=1e-12)


def test_an_interrupted_run_continues_to_the_same_bytes(
    tmp_path: Path, dsa_config: Any, monkeypatch: pytest.MonkeyPatch, results: Any
) -> None:
    run_curriculum(dsa_config(1.0), tmp_path / "whole")
    count = []

    def step(*args: Any, **settings: Any) -> Any:
        count.append(1)
        if len(count) == 28:  # between two records, after a checkpoint in between
            raise KeyboardInterrupt
        return train_step(*args, **settings)

    with monkeypatch.context() as patch:
        patch.setattr("lt2theory.training.stepper.train_step", step)
        with pytest.raises((Interrupted, KeyboardInterrupt)):
            run_curriculum(dsa_config(1.0), tmp_path / "parts")
    run_curriculum(dsa_config(1.0), tmp_path / "parts")
    assert results(tmp_path / "parts") == results(tmp_path / "whole")


def test_a_loss_that_is_not_finite_is_divergence() -> None:
    model = model_of()
    with torch.no_grad():
        model.blocks[1].mixer.index_weight_proj.weight.fill_(torch.nan)
    batch = RECALL.batch(stage=STAGE, split="train", seed=2, index=0, size=32)
    with pytest.raises(DivergenceError, match="the gradient norm is nan"):
        train_step(
            model,
            make_optimiser(model, OptimiserConfig()),
            batch,
            learning_rate=0.1,
            clip=1.0,
            runtime=CPU,
        )
