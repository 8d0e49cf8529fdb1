"""Steps that go wrong: not finite, spikes, and how many in a row."""

import math

import pytest

from lt2theory.training.lm import StabilityConfig
from lt2theory.training.lm.policy import judge, spike_threshold
from lt2theory.training.lm.records import LmState

WINDOW = [1.0, 1.2, 0.8, 1.1, 0.9, 1.0, 1.3, 0.7]


def rules(**fields: object) -> StabilityConfig:
    return StabilityConfig.model_validate({"spike_window": 8, "spike_deviations": 5, **fields})


def test_the_threshold_is_the_stated_one() -> None:
    # Median 1.0; distances .0 .2 .2 .1 .1 .0 .3 .3 have median 0.15.
    assert spike_threshold(WINDOW, rules()) == pytest.approx(1 + 5 * 1.4826 * 0.15)
    assert spike_threshold(WINDOW[1:], rules()) is None
    assert spike_threshold([2.0] * 8, rules()) == pytest.approx(2 + 5 * 0.002)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["loss", "gradient_norm"])
def test_not_finite(name: str, value: float) -> None:
    seen = {"loss": 1.0, "gradient_norm": 1.0} | {name: value}
    assert judge(seen, WINDOW, 0, rules()) == "not_finite"


def test_spikes() -> None:
    high, low = {"loss": 3.0, "gradient_norm": 1.0}, {"loss": 1.5, "gradient_norm": 99.0}
    assert judge(high, WINDOW, 0, rules()) == "spike"
    assert judge(low, WINDOW, 0, rules()) == "good"
    assert judge(high, WINDOW[1:], 0, rules()) == "good"
    skipping = rules(spike_action="skip", max_bad_steps=2)
    assert [judge(high, WINDOW, bad, skipping) for bad in (0, 1, 2)] == [
        "skipped_spike", "skipped_spike", "spike",
    ]  # fmt: skip


def test_counts() -> None:
    state = LmState()
    state.add_step({"loss": 2.0}, "good", 2)
    state.add_step({"loss": math.nan}, "not_finite", 2)
    state.add_step({"loss": 9.0}, "skipped_spike", 2)
    assert (state.step, state.bad_in_row, state.not_finite, state.spikes) == (3, 2, 1, 1)
    state.add_step({"loss": 4.0}, "spike", 2)
    assert (state.bad_in_row, state.spikes, state.skipped_spikes) == (0, 2, 1)
    assert state.losses == [2.0, 4.0]
    assert state.take_means() == {"loss": 3.0}
    assert state.take_means() == {}
    assert state.loss == 3.0
