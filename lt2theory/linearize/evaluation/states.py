"""State resolution of a student: rank of its matrix states, and how many pairs they give back.

The analysers are those of trained models (`lt2theory.analysis`), in float64, on held-out text.
"""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pandas as pd
import torch

from lt2theory.analysis import recall_horizon, retrieval_snr, state_rank
from lt2theory.linearize.evaluation.intervals import mean_interval
from lt2theory.linearize.evaluation.pair import EvaluationConfig, Pair
from lt2theory.linearize.evaluation.table import Measured
from lt2theory.mixers import MIXERS, LinearMixer
from lt2theory.models import LoopTrace
from lt2theory.training.text import TextBatches


@torch.no_grad()
def state_rows(pair: Pair, config: EvaluationConfig) -> list[Measured]:
    """State resolution as rows of the table; none for a student without matrix states.

    Args:
        pair: The student and the text.
        config: `windows`, `window` and `seed`.

    Returns:
        For each layer and loop, of the state after a whole window, means over heads:
        `entropy_rank` and `stable_rank` (floor 1, bootstrap over windows), `rank_share` (entropy
        rank over the largest that the state allows), `horizon` (newest pairs in a row that are
        given back with a signal-to-noise ratio of at least 1) and `snr` (of all pairs, in
        decibels, over heads where it is finite).
    """
    student = pair.student
    kinds = {MIXERS[spec.mixer] for loop in student.config.loops for spec in loop}
    if not any(issubclass(kind, LinearMixer) for kind in kinds):
        return []
    windows = TextBatches(
        pair.stream, length=config.window, batch_size=config.windows, seed=config.seed
    )
    tokens = pair.runtime.tensor(windows.batch(0).inputs)
    with pair.runtime.alone():
        trace = student.trace(tokens)
        rows = list(_rank_rows(trace, config))
        rows += _memory_rows(trace, config)
    return rows


def _rank_rows(trace: LoopTrace, config: EvaluationConfig) -> Iterator[Measured]:
    table = state_rank(trace, every=config.window)
    last = table[table["num_tokens"] == config.window]
    last = last.assign(rank_share=last["entropy_rank"] / last["bound"])
    for place, part in _places(last, config):
        by_window = part.groupby("batch")
        for metric, floor in (("entropy_rank", 1.0), ("stable_rank", 1.0), ("rank_share", None)):
            means = by_window[metric].mean().to_numpy()
            one = mean_interval(means, seed=config.seed)
            yield Measured.of(one, metric=metric, floor=floor, **place)


def _memory_rows(trace: LoopTrace, config: EvaluationConfig) -> Iterator[Measured]:
    table = recall_horizon(retrieval_snr(trace, every=config.window))
    last = table[table["num_tokens"] == config.window]
    for place, part in _places(last, config):
        numbers = {"horizon": part["horizon"].mean(), "snr": _decibels(part["snr"])}
        for metric, value in numbers.items():
            yield Measured(metric=metric, value=float(value), n=config.windows, **place)


def _places(
    table: pd.DataFrame, config: EvaluationConfig
) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """The rows of every layer and loop, after the fields that they share in the result."""
    for key, part in table.groupby(["layer", "loop"]):
        layer, loop = (int(number) for number in cast(tuple[int, int], key))
        place = {"part": "states", "model": "student", "length": config.window}
        yield place | {"layer": layer, "loop": loop}, part


def _decibels(ratios: pd.Series) -> float:
    """Mean of the ratios that are finite and positive, in decibels; NaN without any."""
    found = ratios.to_numpy(dtype=float)
    found = found[np.isfinite(found) & (found > 0)]
    return float(10 * np.log10(found).mean()) if len(found) else float("nan")
