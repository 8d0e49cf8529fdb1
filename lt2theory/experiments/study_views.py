"""What a study's table says of an arm: stages reached, tests that hold, whether all seeds agree.

A finding is True, False, or None where a run is missing or an interval allows both.
"""

from collections.abc import Iterable, Sequence

import pandas as pd

from lt2theory.report import success_interval
from lt2theory.report.tables import format_interval
from lt2theory.report.views import ACCURACY, accuracies, floors, outcomes, stage_outcomes

HOLDS = 0.9
"""Accuracy on the test split that counts as holding at a length that was not trained on."""


def stages_reached(table: pd.DataFrame) -> pd.DataFrame:
    """The largest stage that every finished run has solved.

    Args:
        table: A study's table (`lt2theory.experiments.study_table`), or a part of it.

    Returns:
        One row a run, in the table's order: `label`, `seed`, `run`, `reached` (0 for none),
        `solved` (every stage was), `steps`, `diverged`.
    """
    ends = outcomes(table)
    stages = stage_outcomes(table)
    best = stages[stages["solved"]].groupby(["label", "seed"])["stage"].max()
    reached = [int(best.get((label, seed), 0)) for label, seed in _pairs(ends)]
    return ends.assign(reached=reached)


def reached_by(table: pd.DataFrame, label: str) -> list[int]:
    """Stages reached by one arm's finished runs.

    Args:
        table: A study's table.
        label: The arm.

    Returns:
        One number a seed, in the order of the seeds.
    """
    rows = stages_reached(table[table["label"] == label]).sort_values("seed")
    return [int(stage) for stage in rows["reached"]]


def solved_by(table: pd.DataFrame, label: str, seeds: int) -> list[bool | None]:
    """Which seeds of an arm solved every stage.

    Args:
        table: A study's table.
        label: The arm.
        seeds: How many there should be.

    Returns:
        One finding a seed; None for those that have not ended.
    """
    rows = outcomes(table[table["label"] == label])
    return _filled([bool(solved) for solved in rows["solved"]], seeds)


def holding(
    table: pd.DataFrame, label: str, length: int, seeds: int, mark: float = HOLDS
) -> list[bool | None]:
    """Which seeds of an arm are right often enough at a length.

    Args:
        table: A study's table.
        label: The arm.
        length: A stage whose test is meant.
        seeds: How many there should be.
        mark: The accuracy that is enough.

    Returns:
        One finding a seed: whether the whole 95 % interval of its test lies at or above the mark,
        or below it. A run that diverged does not hold.
    """
    rows = table[table["label"] == label]
    tests = accuracies(rows)
    ends = outcomes(rows)
    found: list[bool | None] = []
    for run, diverged in zip(ends["run"], ends["diverged"], strict=True):
        test = tests[(tests["run"] == run) & (tests["stage"] == length)]
        if test.empty:
            found.append(False if diverged else None)
            continue
        low, high = float(test["low"].iloc[0]), float(test["high"].iloc[0])
        found.append(True if low >= mark else False if high < mark else None)
    return _filled(found, seeds)


def every(findings: Iterable[bool | None]) -> bool | None:
    """Whether all findings hold.

    Args:
        findings: At least one.

    Returns:
        False if one does not, else None if one is open.
    """
    found = list(findings)
    return False if False in found else None if None in found or not found else True


def none(findings: Iterable[bool | None]) -> bool | None:
    """Whether no finding holds.

    Args:
        findings: At least one.

    Returns:
        False if one holds, else None if one is open.
    """
    return every(None if finding is None else not finding for finding in findings)


def counted_seeds(findings: Sequence[bool | None]) -> str:
    """How many seeds, in words.

    Args:
        findings: One a seed.

    Returns:
        For instance `2 of 3 seeds [0.094, 0.992]` (Clopper-Pearson at 95 %), with what is missing.
    """
    known = [finding for finding in findings if finding is not None]
    if not known:
        return f"0 of {len(findings)} seeds decided"
    interval = success_interval(sum(known), len(known))
    bounds = f"[{interval.low:.3f}, {interval.high:.3f}]"
    missing = len(findings) - len(known)
    return f"{sum(known)} of {len(known)} seeds {bounds}" + (f", {missing} open" * bool(missing))


def said_tests(table: pd.DataFrame, label: str, length: int, metric: str = ACCURACY) -> str:
    """Every seed's test of one arm at one length, beside the best floor if there is one.

    Args:
        table: A study's table.
        label: The arm.
        length: The stage.
        metric: Which accuracy; floors are those of the scored one.

    Returns:
        For instance `1.000 [0.999, 1.000], 0.012 [0.009, 0.016] (best floor 0.500)`.
    """
    rows = table[table["label"] == label]
    tests = accuracies(rows, metric=metric)
    tests = tests[tests["stage"] == length].sort_values("seed")
    if tests.empty:
        return "not tested"
    scores = ", ".join(
        format_interval(float(row["value"]), float(row["low"]), float(row["high"]))
        for row in tests.to_dict("records")
    )
    return scores + f" (best floor {best_floor(rows, length):.3f})" * (metric == ACCURACY)


def best_floor(rows: pd.DataFrame, stage: int) -> float:
    """The highest accuracy at a stage that needs no learning.

    Args:
        rows: Rows of one arm.
        stage: The stage.

    Returns:
        The floor; NaN where none was written.
    """
    ground = floors(rows)
    return float(ground[ground["stage"] == stage]["value"].max())


def best_hybrids(table: pd.DataFrame, families: Sequence[str]) -> tuple[str, ...]:
    """Block (1)'s families with GDN, the best first.

    Args:
        table: A study's table.
        families: Their names, in the order that breaks a tie.

    Returns:
        Those that have run with four loops, by the median stage reached, then by fewer steps.
    """
    ranked = []
    for place, family in enumerate(families):
        rows = stages_reached(table[table["label"] == f"recall-{family}-t4"])
        if len(rows):
            merit = (-rows["reached"].median(), float(rows["steps"].astype(float).median()), place)
            ranked.append((merit, family))
    return tuple(family for _, family in sorted(ranked))


def _pairs(ends: pd.DataFrame) -> Iterable[tuple[str, int]]:
    return zip(ends["label"], ends["seed"], strict=True)


def _filled(found: list[bool | None] | list[bool], seeds: int) -> list[bool | None]:
    return [*found, *[None] * (seeds - len(found))]
