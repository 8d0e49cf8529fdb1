"""The course of the learning rate over a run: a pure function of the step, so resume-safe."""

import math

from lt2theory.training.lm.options import LmOptimiserConfig
from lt2theory.training.optimiser import learning_rate_factor


def rate_at(config: LmOptimiserConfig, step: int, steps: int) -> float:
    """Learning rate of a step.

    `wsd` (warm-up, stable, decay; arXiv 2404.06395) stays at the peak until the last `decay_share`
    of the steps, then falls to `final_fraction`, in a line or as `1 - sqrt(course)` (Hagele et
    al., arXiv 2405.18392, section 3). The others are those of `learning_rate_factor`.

    Args:
        config: The schedule.
        step: Steps done, from 0.
        steps: Steps of the run.

    Returns:
        The rate; at the last step `final_fraction` of the peak, unless the course is constant or
        the rise takes all steps.
    """
    if config.schedule != "wsd":
        return config.learning_rate * learning_rate_factor(config, step, steps)
    rise = min(1.0, (step + 1) / config.warmup_steps) if config.warmup_steps else 1.0
    length = max(1, round(config.decay_share * steps))
    course = max(0.0, (step + 1 - (steps - length)) / length)
    fallen = math.sqrt(course) if config.decay_shape == "sqrt" else course
    fall = 1 - (1 - config.final_fraction) * min(fallen, 1.0)
    return config.learning_rate * min(rise, fall)
