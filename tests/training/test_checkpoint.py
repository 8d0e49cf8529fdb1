from pathlib import Path
from typing import Any

import pytest
import torch

from lt2theory.models import LoopedModel
from lt2theory.training import CurriculumConfig, OptimiserConfig, Runtime, resolve
from lt2theory.training.checkpoint import MODEL, OPTIMISER, STATE, load_weights, pack, unpack
from lt2theory.training.draws import training_batch
from lt2theory.training.optimiser import make_optimiser, train_step
from lt2theory.training.records import StageRecord
from lt2theory.training.selection import new_model
from lt2theory.training.train_state import TrainState

CPU = Runtime(torch.device("cpu"))
STATE_NOW = TrainState(
    step=3,
    loss_sum=0.1 + 0.2,
    finished=[
        StageRecord(
            stage=8,
            steps=2,
            solved=True,
            evaluation=None,
            confirmation=None,
            confirmations=0,
            confirmed_on_others=None,
        )
    ],
)


class Session:
    """A model and its optimiser, with the steps that train them."""

    def __init__(self, config: CurriculumConfig) -> None:
        self.config = config
        self.model = new_model(config, CPU)
        self.optimiser = make_optimiser(self.model, OptimiserConfig(weight_decay=0.1))

    def steps(self, first: int, last: int) -> None:
        task = self.config.task.create()
        for step in range(first, last):
            batch = training_batch(task, self.config, 12, step)
            train_step(self.model, self.optimiser, batch, learning_rate=0.01, clip=1.0, runtime=CPU)

    def save(self, folder: Path) -> Path:
        for name, data in pack(self.model, self.optimiser, STATE_NOW).items():
            (folder / name).write_bytes(data)
        return folder


def assert_same(one: LoopedModel, two: LoopedModel) -> None:
    for (name, p), (_, q) in zip(one.named_parameters(), two.named_parameters(), strict=True):
        assert torch.equal(p, q), name


@pytest.fixture
def config(make_config: Any) -> CurriculumConfig:
    return resolve(make_config())


@pytest.mark.parametrize("tied", [False, True])
def test_a_restored_session_goes_on_bit_for_bit(
    tmp_path: Path, make_config: Any, small_model: Any, tied: bool
) -> None:
    model = small_model.model_copy(update={"tie_embeddings": tied})
    config = resolve(make_config(model=model))
    whole, first, second = Session(config), Session(config), Session(config)
    whole.steps(0, 6)
    first.steps(0, 3)
    first.save(tmp_path)
    assert unpack(tmp_path, second.model, second.optimiser) == STATE_NOW
    assert_same(first.model, second.model)
    second.steps(3, 6)
    assert_same(whole.model, second.model)
    with pytest.raises(AssertionError):
        assert_same(first.model, second.model)


def test_weights_alone(tmp_path: Path, config: CurriculumConfig) -> None:
    trained = Session(config)
    trained.steps(0, 2)
    model = new_model(config, CPU)
    load_weights(trained.save(tmp_path), model)
    assert_same(trained.model, model)


def test_nothing_is_pickled(tmp_path: Path, config: CurriculumConfig) -> None:
    Session(config).save(tmp_path)
    assert {path.suffix for path in tmp_path.iterdir()} == {".safetensors", ".json"}


@pytest.mark.parametrize("name", [MODEL, OPTIMISER, STATE])
@pytest.mark.parametrize("damage", [b"", b"\x00" * 40, None])
def test_damaged_files_are_named(
    tmp_path: Path, config: CurriculumConfig, name: str, damage: bytes | None
) -> None:
    session = Session(config)
    session.steps(0, 1)
    session.save(tmp_path)
    if damage is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(damage)
    other = Session(config)
    with pytest.raises(ValueError, match=rf"{name} (cannot be read|is not valid JSON)"):
        unpack(tmp_path, other.model, other.optimiser)
    assert_same(other.model, Session(config).model)


def test_another_model_is_refused(
    tmp_path: Path, config: CurriculumConfig, make_config: Any, small_model: Any
) -> None:
    session = Session(config)
    session.steps(0, 1)
    session.save(tmp_path)
    wider = small_model.model_copy(update={"width": 20})
    other = Session(resolve(make_config(model=wider)))
    with pytest.raises(ValueError, match="does not fit the model"):
        unpack(tmp_path, other.model, other.optimiser)
    deeper = small_model.model_copy(update={"num_layers": 2})
    with pytest.raises(ValueError, match="does not fit the model"):
        load_weights(tmp_path, new_model(resolve(make_config(model=deeper)), CPU))
