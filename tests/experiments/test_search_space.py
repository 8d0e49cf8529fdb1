"""Settings are distinct, and change what they name alone."""

import math

import pytest

from lt2theory.experiments.search_space import LogUniform, configured, described, draw_settings
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
