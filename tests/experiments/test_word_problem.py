"""S3: what each outcome of the arms would say, and what the ranks would."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from lt2theory.experiments import word_problem
from lt2theory.experiments.word_problem import (
    ACCUMULATE,
    LENGTH,
    ONE,
    RESCAN,
    answer,
    learning_predictions,
    question,
    rank_prediction,
)

ARMS = (RESCAN, ACCUMULATE, ONE)


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


def test_the_runs_are_those_that_are_read() -> None:
    configs = question().configs
    assert {config.label for config in configs} == set(ARMS)
    assert {config.stages for config in configs} == {(LENGTH,)}
    assert {config.test_stages for config in configs} == {(2 * LENGTH, 4 * LENGTH)}


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


def test_the_sections_follow_the_runs(
    outcome: Any, make_evidence: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first prediction fails and the second is open: their section says the worse of both."""
    measured: list[Path] = []

    def fake(folder: Path, stage: int) -> pd.DataFrame:
        measured.append(folder)
        assert stage == LENGTH
        return ranks([1, 1, 1], [2, 2, 3], [True] * 3)

    monkeypatch.setattr(word_problem, "transition_ranks", fake)
    evidence = make_evidence(arms(outcome, (5, 4, 2), diverged=(ACCUMULATE,)))
    report = answer(evidence)
    learnt, rank = report.sections
    assert [row.verdict for row in report.predictions] == [
        "not as predicted", "inconclusive", "not as predicted"]  # fmt: skip
    assert (learnt.verdict, rank.verdict) == ("not as predicted", "not as predicted")
    assert "3 with T = 2" in rank.happened[0]
    assert len(measured) == 14
    assert "(14 models)" in rank.figures[0].caption
    rows = rank.tables[0].frame
    assert rows["tokens x heads"].tolist() == ["15", "15", "15", "15", "12", "12"]
    assert rows["arm"].tolist() == list(np.repeat([ONE, RESCAN, ACCUMULATE], 2))


def test_arms_that_diverged_altogether_are_reported(outcome: Any, make_evidence: Any) -> None:
    runs = [outcome(label, seed, diverged=True) for label in ARMS for seed in range(5)]
    report = answer(make_evidence(runs))
    assert {row.verdict for row in report.predictions} == {"inconclusive"}
    assert "not tested" in report.predictions[0].happened
