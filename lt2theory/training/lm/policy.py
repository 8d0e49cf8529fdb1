"""What happens to a step that went wrong: not finite, or a spike of the loss."""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Literal

from lt2theory.training.lm.options import StabilityConfig

Verdict = Literal["good", "spike", "skipped_spike", "not_finite"]

_TO_DEVIATION = 1.4826
"""Standard deviation of a normal distribution over its median distance from the median."""
_LEAST = 1e-3
"""Least deviation that is assumed, as a share of the median: losses that hardly move."""


def spike_threshold(losses: Sequence[float], config: StabilityConfig) -> float | None:
    """The loss above which a step is a spike.

    Args:
        losses: Those of the last accepted steps.
        config: How many deviations, over which window.

    Returns:
        `median + spike_deviations * max(1.4826 * MAD, median / 1000)`, with the median and the
        median absolute distance from it of the window; None before it is full.
    """
    if len(losses) < config.spike_window:
        return None
    window = losses[-config.spike_window :]
    middle = statistics.median(window)
    spread = _TO_DEVIATION * statistics.median(abs(loss - middle) for loss in window)
    return middle + config.spike_deviations * max(spread, _LEAST * abs(middle))


def judge(
    seen: Mapping[str, float],
    losses: Sequence[float],
    bad_in_row: int,
    config: StabilityConfig,
) -> Verdict:
    """Whether a step may change the weights.

    Args:
        seen: What it saw, with `loss` and `gradient_norm`.
        losses: Those of the last accepted steps.
        bad_in_row: Steps without effect just before it.
        config: The rules.

    Returns:
        `good`; `spike`, which is noted but taken; `skipped_spike` and `not_finite`, which change
        nothing. After `max_bad_steps` without effect a spike is taken: it is a lasting change.
    """
    if not all(math.isfinite(value) for value in seen.values()):
        return "not_finite"
    threshold = spike_threshold(losses, config)
    if threshold is None or seen["loss"] <= threshold:
        return "good"
    may_skip = config.spike_action == "skip" and bad_in_row < config.max_bad_steps
    return "skipped_spike" if may_skip else "spike"
