"""Learning rates: the values of every course."""

import math

import pytest

from lt2theory.training.lm import LmOptimiserConfig
from lt2theory.training.lm.schedule import rate_at


def rates(steps: int, **fields: object) -> list[float]:
    config = LmOptimiserConfig.model_validate({"learning_rate": 2.0, **fields})
    return [rate_at(config, step, steps) for step in range(steps)]


def test_cosine() -> None:
    found = rates(11, schedule="cosine", warmup_steps=2, final_fraction=0.1)
    assert found[:3] == [1.0, 2.0, 2.0]
    assert found[6] == pytest.approx(2 * (0.1 + 0.9 * (1 + math.cos(math.pi / 2)) / 2))
    assert found[10] == pytest.approx(0.2)


def test_wsd_linear() -> None:
    found = rates(
        20, schedule="wsd", warmup_steps=4, decay_share=0.25, decay_shape="linear", final_fraction=0
    )
    assert found[:4] == pytest.approx([0.5, 1.0, 1.5, 2.0])
    assert found[4:15] == [2.0] * 11
    assert found[15:] == pytest.approx([1.6, 1.2, 0.8, 0.4, 0.0])


def test_wsd_sqrt() -> None:
    found = rates(8, schedule="wsd", warmup_steps=0, decay_share=0.5, final_fraction=0.2)
    assert found[:4] == [2.0] * 4
    assert found[4:] == pytest.approx([2 * (1 - 0.8 * math.sqrt(k / 4)) for k in (1, 2, 3, 4)])


@pytest.mark.parametrize("steps", [1, 2, 3, 7])
@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine", "wsd"])
def test_short_runs_never_leave_the_range(schedule: str, steps: int) -> None:
    assert all(
        0 <= rate <= 2 for rate in rates(steps, schedule=schedule, warmup_steps=3, final_fraction=0)
    )
