"""S3: what each outcome of the arms would say, and what the ranks would."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from lt2theory.experiments.word_problem_predictions import (
    ACCUMULATE,
    ONE,
    RESCAN,
    learning_predictions,
    rank_prediction,
)
from tests.experiments.word_problem_runs import arms, ranks


@pytest.mark.parametrize(
    ("rescan", "accumulate", "expected", "p_value"),
    [
        # All solve after 100 steps here, so the ranks know solved and unsolved alone.
        (0, 5, "as predicted", "0.008"),
        (0, 4, "as predicted", "0.048"),
        (1, 5, "as predicted", "0.048"),
        (2, 5, "inconclusive", "0.167"),
        (1, 4, "inconclusive", "0.206"),
        (5, 5, "inconclusive", "1.000"),
        (0, 0, "inconclusive", "1.000"),
        (4, 0, "not as predicted", "0.048"),
        (5, 1, "not as predicted", "0.048"),
    ],
)
def test_two_kinds_of_two_loops(
    rescan: int,
    accumulate: int,
    expected: str,
    p_value: str,
    outcome: Any,
    make_evidence: Any,
) -> None:
    _, two = learning_predictions(make_evidence(arms(outcome, (rescan, accumulate, 0))))
    assert two.verdict == expected
    assert f"accumulate {accumulate} of 5 seeds" in two.happened
    assert f"rescan {rescan} of 5 seeds" in two.happened
    assert f"p = {p_value})" in two.happened


def test_who_is_sooner_counts_where_all_solve(make_evidence: Any, outcome: Any) -> None:
    """Every seed of both solves, but all of one arm before the first of the other."""
    evidence = make_evidence(arms(outcome, (5, 5, 0)))
    table = evidence.table.copy()
    late = (table["label"] == RESCAN) & (table["metric"] == "steps") & (table["split"] == "run")
    table.loc[late, "value"] = 150
    _, two = learning_predictions(replace(evidence, table=table))
    assert two.verdict == "as predicted"
    assert "accumulate 5 of 5 seeds (median 100 steps)" in two.happened
    assert "rescan 5 of 5 seeds (median 150 steps) (rank-sum test" in two.happened


@pytest.mark.parametrize(
    ("solved", "diverged", "expected"),
    [
        (0, (), "as predicted"),
        (1, (), "not as predicted"),
        (0, (ONE,), "inconclusive"),
        (1, (ONE,), "not as predicted"),
    ],
)
def test_one_loop(
    solved: int, diverged: Sequence[str], expected: str, outcome: Any, make_evidence: Any
) -> None:
    evidence = make_evidence(arms(outcome, (0, 5, solved), diverged=diverged))
    assert learning_predictions(evidence)[0].verdict == expected


@pytest.mark.parametrize(
    ("first", "second", "independent", "expected"),
    [
        ([1, 1, 1], [2, 2, 2], [True] * 3, "as predicted"),
        ([1, 1, 1], [2, 2, 1], [True, True, False], "as predicted"),
        ([1, 1, 1], [2, 2, 1], [True] * 3, "not as predicted"),
        ([1, 1, 1], [2, 2, 3], [True] * 3, "not as predicted"),
        ([2, 1, 1], [2, 2, 2], [True] * 3, "not as predicted"),
        ([1, 1, 1], [1, 1, 1], [False] * 3, "inconclusive"),
    ],
)
def test_ranks(first: Any, second: Any, independent: Any, expected: str) -> None:
    table = ranks(first, second, independent)
    row = rank_prediction({ACCUMULATE: table})
    assert row.verdict == expected
    largest = f"{max(first)} with T = 1, {max(second)} with T = 2"
    assert row.happened.startswith(f"Largest rank after T loops: {largest}. ")


def test_without_models_there_is_no_rank() -> None:
    assert rank_prediction({}).verdict == "inconclusive"
