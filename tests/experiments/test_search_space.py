"""Settings are distinct and change what they name alone; a space that does not fit is refused."""

import math
from typing import Any

import numpy as np
import pytest

from lt2theory.experiments.search_space import (
    LogUniform,
    Uniform,
    check_space,
    configured,
    described,
    draw_settings,
)
from lt2theory.experiments.tuning import SEED
from lt2theory.training import CurriculumConfig

SPACE = {"optimiser.learning_rate": LogUniform(1e-3, 1e-2), "model.num_heads": (1, 2)}


def test_settings_are_distinct_and_inside_the_space() -> None:
    settings = draw_settings(SPACE, 30, seed=1)
    assert len({described(setting) for setting in settings}) == 30
    rates = [setting["optimiser.learning_rate"] for setting in settings]
    assert all(1e-3 <= rate <= 1e-2 for rate in rates)
    assert math.log10(max(rates) / min(rates)) > 0.7
    assert {setting["model.num_heads"] for setting in settings} == {1, 2}
    assert draw_settings(SPACE, 30, seed=1) == settings != draw_settings(SPACE, 30, seed=2)
    with pytest.raises(ValueError, match=r"settings: got 3, allowed 1\.\.2"):
        draw_settings({"model.num_heads": (1, 2)}, 3)


def test_a_setting_changes_what_it_names_and_leaves_the_test_split_unread() -> None:
    fields = {"task": {"name": "parity"}, "stages": (5,), "test_stages": (7,), "label": "a"}
    start = CurriculumConfig.model_validate(fields)
    config = configured(start, {"optimiser.clip": 0.5, "model.num_heads": 2}, seed=SEED)
    assert (config.optimiser.clip, config.model.num_heads, config.seed) == (0.5, 2, SEED)
    assert (config.test, config.test_stages, config.label) == (
        False,
        (),
        "a | clip 0.5, num_heads 2",
    )
    for name in ("optimiser.rate", "optimizer.clip", "seed.low"):
        with pytest.raises(ValueError, match=f"'{name}' names no field"):
            configured(start, {name: 1}, seed=0)


def test_a_range_is_left_neither_by_draws_nor_by_rounding() -> None:
    rng = np.random.default_rng(0)
    axis = Uniform(-0.25, 0.999)
    values = [axis.draw(rng) for _ in range(200)]
    assert min(values) < -0.2
    assert max(values) > 0.9
    assert all(-0.25 <= value <= 0.999 for value in values)
    assert abs(sum(values) / 200 - 0.3745) < 0.1  # evenly: four standard errors of the mean
    assert (axis.rounded(0.996), axis.rounded(0.1234)) == (0.999, 0.12)
    assert LogUniform(1.25e-3, 1e-2).rounded(1.251e-3) == 1.3e-3


@pytest.mark.parametrize(
    ("kind", "low", "high", "message"),
    [
        (
            Uniform,
            0.2,
            0.1,
            r"low, high: got 0\.2 and 0\.1, allowed are finite numbers, low < high",
        ),
        (Uniform, 0.1, 0.1, "low, high: got"),
        (Uniform, 0.0, math.inf, "low, high: got 0.0 and inf"),
        (LogUniform, math.nan, 0.1, "low, high: got nan and 0.1"),
        (LogUniform, 0.0, 0.1, r"low: got 0\.0, allowed are numbers > 0"),
    ],
)
def test_bounds_that_are_no_range_are_refused(
    kind: type[Uniform], low: float, high: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        kind(low, high)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({"optimiser.rate": Uniform(0, 1)}, "'optimiser.rate' names no field"),
        ({"optimiser.betas": ()}, "optimiser.betas: got no choices, allowed is at least one"),
        (
            {"optimiser.weight_decay": Uniform(-0.1, 0.1)},
            r"weight_decay\n.*equal to 0 .*value=-0\.1",
        ),
        ({"optimiser.final_fraction": Uniform(0, 1.5)}, r"final_fraction\n.*value=1\.5"),
        ({**SPACE, "model.num_heads": (1, 2, 3)}, "num_heads: 3 does not divide width"),
    ],
)
def test_a_space_is_tried_on_every_arm(space: dict[str, Any], message: str) -> None:
    arm = CurriculumConfig.model_validate({"task": {"name": "parity"}, "stages": (5,)})
    check_space([arm], SPACE)
    with pytest.raises(ValueError, match=message):
        check_space([arm], space)


def test_choices_need_not_fit_what_another_choice_replaces() -> None:
    arm = CurriculumConfig.model_validate({"task": {"name": "parity"}, "stages": (5,)})
    assert arm.model.width % 3
    check_space([arm], {"model.num_heads": (3, 6), "model.width": (12, 24)})
