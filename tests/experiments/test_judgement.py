"""From findings to verdicts: each of the three can come out."""

import pandas as pd
import pytest

from lt2theory.experiments.judgement import (
    all_at_floor,
    all_off_floor,
    everybody_solved,
    joint_verdict,
    nobody_solved,
    said,
    seed_means,
    solved_by_arm,
    verdict,
)
from lt2theory.report import PredictionRow


@pytest.mark.parametrize(
    ("findings", "expected"),
    [
        ((True, True), "as predicted"),
        ((True, None), "inconclusive"),
        ((None, False), "not as predicted"),
        ((False, True), "not as predicted"),
    ],
)
def test_verdicts(findings: tuple[bool | None, ...], expected: str) -> None:
    assert verdict(*findings) == expected


def test_a_section_is_as_good_as_its_worst_prediction() -> None:
    rows = [
        PredictionRow("claim", "W1", "happened", name)
        for name in ("as predicted", "inconclusive", "not as predicted")
    ]
    assert joint_verdict(rows[:1]) == "as predicted"
    assert joint_verdict(rows[:2]) == "inconclusive"
    assert joint_verdict(rows) == "not as predicted"


def ends(*runs: tuple[str, bool, bool]) -> pd.DataFrame:
    return pd.DataFrame(runs, columns=["label", "solved", "diverged"])


def test_who_solved() -> None:
    table = ends(("a", True, False), ("b", False, False), ("a", False, True), ("c", False, True))
    assert solved_by_arm(table) == {"a": (1, 2), "b": (0, 1), "c": (0, 1)}
    assert [everybody_solved(table, arm) for arm in "abc"] == [False, False, False]
    assert [nobody_solved(table, arm) for arm in "abc"] == [False, True, None]
    assert everybody_solved(ends(("a", True, False)), "a")


def scores(*values: float, n: int = 4096) -> pd.DataFrame:
    return pd.DataFrame({"label": "a", "seed": range(len(values)), "stage": 8, "value": values,
                         "n": n})  # fmt: skip


# Three standard errors of a coin thrown 4,096 times: 3 * 0.5 / 64 = 0.0234.
@pytest.mark.parametrize(
    ("values", "n", "at", "off"),
    [
        ([0.5, 0.523], 4096, True, False),
        ([0.5, 0.524], 4096, False, False),
        ([0.524, 0.9], 4096, False, True),
        ([0.476, 0.5], 4096, False, False),
        ([0.524, 0.5], 1024, True, False),
        ([0.5], 4096, None, False),
        ([0.9], 4096, False, None),
        ([], 4096, None, None),
    ],
)
def test_floors(values: list[float], n: int, at: bool | None, off: bool | None) -> None:
    assert all_at_floor(scores(*values, n=n), 0.5, expected=2) is at
    assert all_off_floor(scores(*values, n=n), 0.5, expected=2) is off


def test_accuracies_in_words() -> None:
    means = seed_means(scores(0.4, 0.5, 0.6))
    assert said(means, "a", 8) == "0.500 [0.252, 0.748]"
    assert said(means, "a", 9) == said(seed_means(scores()), "a", 8) == "not tested"
