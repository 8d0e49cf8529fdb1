"""Runs and ranks of the word problem that never were."""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from lt2theory.experiments.word_problem_predictions import (
    ACCUMULATE,
    ONE,
    RESCAN,
)

ARMS = (RESCAN, ACCUMULATE, ONE)

CODES = pd.DataFrame(
    {
        "component": ["the standard representation", "the sign"],
        "kind": ["representation", "unclear"],
        "dimension": [2, 1],
        "head": [4, 5],
        "loop": [1, 0],
        "directions": [2, 1],
        "key_width": [8, 8],
        "carried": [0.98, 0.5],
        "carried_std": [0.02, 0.2],
        "by_token": [1.0, 0.4],
        "rank_off": [0.02, 0.4],
        "whole_off": [0.6, 0.5],
    }
)
"""What a model's states might hold."""


def arms(outcome: Any, solved: Sequence[int], *, diverged: Sequence[str] = ()) -> list[Any]:
    """Five seeds an arm, of which so many solve; of `diverged` arms the last seed diverged."""
    runs = []
    for label, count in zip(ARMS, solved, strict=True):
        for seed in range(5):
            if label in diverged and seed == 4:
                runs.append(outcome(label, seed, diverged=True))
                continue
            tests = {16: 0.98, 32: 0.9, 64: 0.6} if seed < count else {16: 0.34, 32: 0.3, 64: 0.3}
            runs.append(outcome(label, seed, {16: seed < count}, tests))
    return runs


def ranks(first: Sequence[int], second: Sequence[int], independent: Sequence[bool]) -> pd.DataFrame:
    """Ranks of three transitions after one loop, and of the same after two."""
    return pd.DataFrame(
        {
            "num_loops": [1] * 3 + [2] * 3,
            "product_rank": [*first, *second],
            "keys_independent": [True] * 3 + list(independent),
            "entropy_rank": [1.0] * 3 + [1.5] * 3,
            "ideal_entropy_rank": [1.0] * 3 + [1.8] * 3,
            "beta": 1.0,
            "acts_on_state": True,
        }
    )
