from typing import Any

import pytest
import tyro
from pydantic import BaseModel, ValidationError

from lt2theory.models import LoopedConfig
from lt2theory.training import CurriculumConfig, OptimiserConfig, TaskConfig, resolve


@pytest.mark.parametrize("kind", [TaskConfig, OptimiserConfig, CurriculumConfig, LoopedConfig])
def test_every_option_is_explained(kind: type[BaseModel]) -> None:
    unexplained = [name for name, field in kind.model_fields.items() if not field.description]
    assert unexplained == []


def test_json_round_trip_keeps_the_types_of_knobs(make_config: Any) -> None:
    knobs = {"flag": True, "count": 1, "share": 1.0, "name": "S3", "number": "3"}
    config = make_config(task=TaskConfig(name="parity", knobs=knobs))
    found = CurriculumConfig.model_validate(config.to_json())
    assert found == config
    assert {key: type(value) for key, value in found.task.knobs.items()} == {
        key: type(value) for key, value in knobs.items()
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"min_steps": 61}, r"min_steps: got 61, allowed 0\.\.60"),
        ({"stages": (8, 8)}, r"stages: got \(8, 8\), allowed are distinct"),
        ({"learning_rates": (1e-3, 1e-3)}, "learning_rates: got .* distinct"),
        ({"learning_rates": (0.0,)}, "learning_rates: got .* numbers > 0"),
        ({"pass_mark": 1.5}, "less than or equal to 1"),
        ({"evaluation_size": 63}, "greater than or equal to 64"),
        ({"device": "tpu"}, "'cpu' or 'cuda'"),
        ({"learning_rates": (float("inf"),)}, "finite number"),
        ({"optimiser": {"weight_decay": float("inf")}}, "finite number"),
        ({"batch_size": 2**20 + 1}, "less than or equal to 1048576"),
        ({"test_size": 2**20 + 1}, "less than or equal to 1048576"),
        ({"label": "a\nb"}, r"label: got 'a\\nb', allowed is one line of printable text"),
        ({"model": {"loop_loss": "mean"}}, "loop_loss: got 'mean', allowed is 'last'"),
        ({"batchsize": 4}, "batchsize: no such field, perhaps you meant batch_size"),
        ({"optimiser": {"betas": (0.9, 1.0)}}, r"betas: got \(0\.9, 1\.0\)"),
    ],
)
def test_bad_values_are_named(make_config: Any, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        make_config(**changes)


def test_configurations_are_frozen(make_config: Any) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        make_config().seed = 3


def test_resolving_takes_vocabulary_stages_and_length_from_the_task(
    make_config: Any, small_model: LoopedConfig
) -> None:
    model = small_model.model_copy(update={"positions": "learned", "max_length": 1})
    config = resolve(make_config(stages=(), test_stages=(333,), model=model))
    task = config.task.create()
    assert config.stages == task.stages
    assert config.model.vocab_size == task.vocab_size
    assert config.model.max_length == max(333, *task.stages)
    assert resolve(config) == config


def test_without_learned_positions_the_length_stays_free(make_config: Any) -> None:
    assert resolve(make_config()).model.max_length is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": TaskConfig(name="primes")}, "primes"),
        ({"task": TaskConfig(name="parity", knobs={"base": 3})}, "base"),
        ({"stages": (0,)}, "stage: 0 is not allowed"),
        ({"stages": (1,)}, "stage 1 of parity has only 2 instances, none of them in its"),
        ({"test_stages": (-4,)}, "stage: -4 is not allowed"),
    ],
)
def test_what_does_not_fit_the_task_is_named(
    make_config: Any, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        resolve(make_config(**changes))


def test_the_command_line_keeps_the_types_of_knobs() -> None:
    text = "--task.name group_word --task.knobs group S3 depth 3 share 0.5 flag True"
    options = "--learning-rates 1e-3 3e-3 --optimiser.clip None --model.num-loops 2 --stages 8 16"
    config = tyro.cli(CurriculumConfig, args=[*text.split(), *options.split()])
    assert config.task.knobs == {"group": "S3", "depth": 3, "share": 0.5, "flag": True}
    assert type(config.task.knobs["depth"]) is int
    assert type(config.task.knobs["flag"]) is bool
    assert config.learning_rates == (1e-3, 3e-3)
    assert config.stages == (8, 16)
    assert config.optimiser.clip is None
    assert config.model.num_loops == 2
