"""The study in short: how many seeds came to the end, computed like every other table."""

from collections.abc import Callable, Sequence

import pandas as pd

from lt2theory.experiments.study_recipes import FAMILIES, RUNGS
from lt2theory.experiments.study_rules_words import FAR
from lt2theory.experiments.study_views import holding, solved_by
from lt2theory.report.tables import MISSING

COMPARED = {"S3": (2, 4), "S4": (2, 4), "A5": (2, 4), "S5": (2, 4), "Z5": (2,), "Z60": (2,)}
"""Groups with the numbers of loops that stand beside one."""

Found = Callable[[pd.DataFrame, str], Sequence[bool | None]]


def recall_in_short(table: pd.DataFrame) -> list[dict[str, str]]:
    """Seeds that solved every rung of state-based recall, by family.

    Args:
        table: A study's table.

    Returns:
        One record a family: seeds of the arms with one loop, four, and four that stay at each rung.
    """
    columns = {"T = 1": "t1", "T = 4": "t4", "T = 4, settled": "t4-settled"}
    return [
        {f"solved {RUNGS[-1]} swaps": family}
        | _counted(
            table, {column: f"recall-{family}-{arm}" for column, arm in columns.items()}, _solved
        )
        for family in FAMILIES
    ]


def words_in_short(table: pd.DataFrame) -> list[dict[str, str]]:
    """Seeds that hold words of four times the training length, by group and loops.

    Args:
        table: A study's table.

    Returns:
        One record a group and number of loops: seeds of the arm with one loop, and by semantics.
    """
    columns = {
        "rescan": "rescan",
        "accumulate": "accumulate",
        "rescan, settled": "rescan-settled",
        "accumulate, settled": "accumulate-settled",
    }
    records = []
    for group, several in COMPARED.items():
        for loops in several:
            start = group.lower()
            arms = {"T = 1": f"{start}-t1"}
            arms |= {column: f"{start}-t{loops}-{arm}" for column, arm in columns.items()}
            name = {f"hold {FAR} tokens": f"{group}, T = {loops}"}
            records.append(name | _counted(table, arms, _holds))
    return records


def _counted(table: pd.DataFrame, arms: dict[str, str], found: Found) -> dict[str, str]:
    """By column, how many of an arm's decided seeds; a dash where none is."""
    counts = {}
    for column, arm in arms.items():
        known = [finding for finding in found(table, arm) if finding is not None]
        counts[column] = f"{sum(known)} of {len(known)}" if known else MISSING
    return counts


def _solved(table: pd.DataFrame, arm: str) -> Sequence[bool | None]:
    return solved_by(table, arm, seeds=0)


def _holds(table: pd.DataFrame, arm: str) -> Sequence[bool | None]:
    return holding(table, arm, FAR, seeds=0)
