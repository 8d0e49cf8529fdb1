"""From what was measured to a verdict: every finding holds, does not, or was not decided (None)."""

from collections.abc import Iterable

import pandas as pd

from lt2theory.report import PredictionRow, seed_summary
from lt2theory.report.content import Verdict
from lt2theory.report.tables import format_interval

DEVIATIONS = 3
"""Standard errors that sampling of test instances may explain; 1 in 370 by chance alone."""


def verdict(*findings: bool | None) -> Verdict:
    """Judge a prediction that consists of several statements.

    Args:
        *findings: Whether each statement was found to hold; None where nothing was measured, or
            where the interval allows both.

    Returns:
        `not as predicted` if one does not hold, else `inconclusive` if one was not decided.
    """
    if False in findings:
        return "not as predicted"
    return "inconclusive" if None in findings else "as predicted"


def joint_verdict(rows: Iterable[PredictionRow]) -> Verdict:
    """Judge predictions that share a section.

    Args:
        rows: The predictions.

    Returns:
        The worst of their verdicts.
    """
    holds = {"as predicted": True, "not as predicted": False, "inconclusive": None}
    return verdict(*(holds[row.verdict] for row in rows))


def solved_by_arm(ends: pd.DataFrame) -> dict[str, tuple[int, int]]:
    """Count the seeds that solved every stage.

    Args:
        ends: As `lt2theory.report.views.outcomes` makes it.

    Returns:
        Arm -> (seeds that solved, seeds); a run that diverged did not solve.
    """
    groups = ends.groupby("label", sort=False)["solved"]
    return {str(label): (int(solved.sum()), len(solved)) for label, solved in groups}


def everybody_solved(ends: pd.DataFrame, label: str) -> bool:
    """Whether every seed of an arm solved every stage.

    Args:
        ends: As for `solved_by_arm`.
        label: The arm.

    Returns:
        False too where a run diverged.
    """
    return bool(ends[ends["label"] == label]["solved"].all())


def nobody_solved(ends: pd.DataFrame, label: str) -> bool | None:
    """Whether no seed of an arm solved every stage.

    Args:
        ends: As for `solved_by_arm`.
        label: The arm.

    Returns:
        None if none solved but some diverged: what they would have learnt is not known.
    """
    rows = ends[ends["label"] == label]
    if rows["solved"].any():
        return False
    return None if rows["diverged"].any() else True


def all_at_floor(tests: pd.DataFrame, floor: float, *, expected: int) -> bool | None:
    """Whether every test is as near a floor as sampling of instances leaves it.

    Args:
        tests: Rows of `lt2theory.report.views.accuracies`.
        floor: The accuracy that needs no learning.
        expected: Tests that there should be.

    Returns:
        None if none is off the floor but some are missing.
    """
    off = (_deviations(tests, floor).abs() > DEVIATIONS).any()
    return False if off else _complete(tests, expected)


def all_off_floor(tests: pd.DataFrame, floor: float, *, expected: int) -> bool | None:
    """Whether every test is higher above a floor than sampling of instances explains.

    Args:
        tests: As for `all_at_floor`.
        floor: The accuracy that needs no learning.
        expected: Tests that there should be.

    Returns:
        None if all that there are lie above, but some are missing.
    """
    near = (_deviations(tests, floor) <= DEVIATIONS).any()
    return False if near else _complete(tests, expected)


def seed_means(tests: pd.DataFrame) -> pd.DataFrame:
    """Mean accuracy over seeds of every arm and stage.

    Args:
        tests: As for `all_at_floor`.

    Returns:
        As `lt2theory.report.seed_summary` makes it, by `label` and `stage`; empty without tests.
    """
    if tests.empty:
        return pd.DataFrame(columns=["label", "stage", "value", "low", "high"])
    return seed_summary(tests, by=["label", "stage"], bounds=(0.0, 1.0))


def said(means: pd.DataFrame, label: str, stage: int) -> str:
    """One arm's mean accuracy at one stage, in words.

    Args:
        means: As `seed_means` makes it.
        label: The arm.
        stage: The stage.

    Returns:
        For instance `0.498 [0.483, 0.513]`; `not tested` where every run diverged before its test.
    """
    rows = means[(means["label"] == label) & (means["stage"] == stage)]
    if rows.empty:
        return "not tested"
    value, low, high = (float(rows[name].iloc[0]) for name in ("value", "low", "high"))
    return format_interval(value, low, high)


def _deviations(tests: pd.DataFrame, floor: float) -> pd.Series:
    error = (floor * (1 - floor) / tests["n"].astype(float)) ** 0.5
    return (tests["value"].astype(float) - floor) / error


def _complete(tests: pd.DataFrame, expected: int) -> bool | None:
    return True if len(tests) >= expected else None
