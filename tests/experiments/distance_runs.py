"""Runs and influences of the distance probe that never were."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from lt2theory.analysis import Influence
from lt2theory.experiments.distance_predictions import (
    BEYOND,
    INSIDE,
    REACH,
)


def stages(loops: int) -> list[int]:
    return [7 * times + 1 for times in range(1, loops + 1)]


def arms(outcome: Any, changes: Mapping[tuple[str, int], Mapping[str, Any]]) -> list[Any]:
    """Runs as W1 wants them, but for `changes` by arm and seed."""
    runs = []
    for loops, edge in REACH.items():
        for label in (INSIDE[loops], BEYOND[loops]):
            for seed in range(2):
                trained = dict.fromkeys(stages(loops), True)
                tests = dict.fromkeys(stages(loops), 1.0) | {edge + 1: 0.505}
                if label == BEYOND[loops]:
                    trained[edge + 1] = False
                fields = {"stages": trained, "tests": tests} | changes.get((label, seed), {})
                runs.append(outcome(label, seed, **fields))
    return runs


def influence(reach: int, *, holes: tuple[int, ...] = (), length: int = 37) -> Influence:
    support = np.arange(length)[None, :].repeat(2, 0) < reach
    support[1, list(holes)] = False
    return Influence(support / 2.0, support, length - 1, 4, True)
