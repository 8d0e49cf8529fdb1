"""How long a cell is expected to take on one H200: estimates, until others of its kind ended."""

from lt2theory.experiments.language.cells import LanguageCell
from lt2theory.experiments.linearization.minutes import BUILD_SECONDS, step_ms
from lt2theory.experiments.serial import Prices

MEASURE_SECONDS = 8.0
"""Held-out text and decoding at two lengths: a guess."""
ACCUMULATE = 1.5
"""A step with four loops that accumulate over one that rescans (results/train-step-h200.json)."""


def cell_seconds(cell: LanguageCell) -> float:
    """What a cell is expected to take.

    Args:
        cell: The cell.

    Returns:
        Seconds of training and measurement.
    """
    run = cell.config
    one = step_ms(run.model, run.batch_size, run.sequence_length)
    if run.model.loop_state == "accumulate" and run.model.num_loops > 1:
        one *= ACCUMULATE
    return run.total_steps * one / 1e3 + BUILD_SECONDS + MEASURE_SECONDS


def price_kind(cell: LanguageCell) -> str:
    """What cells are alike in how their price compares with what they take.

    Args:
        cell: The cell.

    Returns:
        Mixers and loop state.
    """
    model = cell.config.model
    mixers = sorted({spec.mixer for loop in model.loops for spec in loop})
    return "-".join([*mixers, model.loop_state])


PRICES = Prices(cell_seconds, price_kind)
"""Of the study's cells."""
