"""Tables of studies that never ran."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from lt2theory.experiments.study_recipes import RUNGS

FLOORS = {128: {"uniform": 0.5, "ignores_swaps": 0.6875}}
Run = Callable[..., Any]


def recall_run(outcome: Run, label: str, seed: int, reached: int) -> Any:
    """A run of state-based recall that solved all rungs up to one, and failed the next."""
    stages = {stage: stage <= reached for stage in RUNGS if stage <= 2 * max(reached, 0.5)}
    tests = {stage: 0.95 if solved else 0.6 for stage, solved in stages.items()}
    return outcome(label, seed, stages, tests)


def word_run(
    outcome: Run, label: str, seed: int, far: float, *, length: int = 128, diverged: bool = False
) -> Any:
    """A run of a word problem, by its accuracy at the longest test; from 0.9 on it solved all."""
    solved = far >= 0.9
    tests = {} if diverged else {32: 1.0 if solved else far, length: far}
    return outcome(label, seed, {16: True, 32: solved}, tests, diverged=diverged)


def study(make_evidence: Any, runs: Sequence[Any], **columns: Any) -> pd.DataFrame:
    """The table of a study of such runs."""
    table: pd.DataFrame = make_evidence(list(runs), FLOORS).table
    named = {"status": "done", "task": "state_based_recall", "loops": 4} | columns
    return table.assign(**named)


def with_ranks(table: pd.DataFrame, values: Mapping[str, float]) -> pd.DataFrame:
    """Ranks of every run besides."""
    runs = table.drop_duplicates("run")
    rows = [
        runs.assign(split="rank", metric=metric, value=value) for metric, value in values.items()
    ]
    return pd.concat([table, *rows], ignore_index=True)
