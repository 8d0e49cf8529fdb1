"""Parity: what would speak for and against negative eigenvalues."""

from collections.abc import Sequence
from typing import Any

import pytest

from lt2theory.experiments.parity import LENGTH, NARROW, SEEDS, WIDE, answer, prediction, question

LEARNT = {32: 1.0, 64: 1.0, 128: 0.8}
GUESSED = {32: 0.5, 64: 0.51, 128: 0.49}


def arms(outcome: Any, narrow: Sequence[Any], wide: Sequence[Any]) -> list[Any]:
    """Three seeds an arm; each is its tests, or None for a run that diverged."""
    return [
        outcome(label, seed, diverged=True)
        if tests is None
        else outcome(label, seed, {32: tests[32] > 0.9}, tests)
        for label, seeds in ((NARROW, narrow), (WIDE, wide))
        for seed, tests in enumerate(seeds)
    ]


def test_the_runs_test_what_is_claimed() -> None:
    configs = question().configs
    assert {config.label for config in configs} == {NARROW, WIDE}
    assert {(config.stages, config.test_stages) for config in configs} == {
        ((LENGTH,), (2 * LENGTH, 4 * LENGTH))
    }
    assert len(configs) == 2 * SEEDS


@pytest.mark.parametrize(
    ("narrow", "wide", "expected"),
    [
        ([GUESSED] * 3, [LEARNT] * 3, "as predicted"),
        # beta in (0, 1) above the floor: beyond the training length, or within it.
        ([GUESSED, GUESSED, GUESSED | {64: 0.53}], [LEARNT] * 3, "not as predicted"),
        ([GUESSED, GUESSED, GUESSED | {128: 0.6}], [LEARNT] * 3, "not as predicted"),
        ([GUESSED, GUESSED, GUESSED | {32: 1.0}], [LEARNT] * 3, "not as predicted"),
        # beta in (0, 2) that fails to learn, or to carry.
        ([GUESSED] * 3, [LEARNT, LEARNT, GUESSED], "not as predicted"),
        ([GUESSED] * 3, [LEARNT, LEARNT, LEARNT | {64: 0.51}], "not as predicted"),
        ([GUESSED] * 3, [LEARNT, LEARNT, None], "not as predicted"),
        # Nothing is known of what a diverged run with beta in (0, 1) would have learnt.
        ([GUESSED, GUESSED, None], [LEARNT] * 3, "inconclusive"),
        ([None] * 3, [LEARNT] * 3, "inconclusive"),
        ([GUESSED, GUESSED | {64: 0.6}, None], [LEARNT] * 3, "not as predicted"),
    ],
)
def test_verdicts(narrow: Any, wide: Any, expected: str, outcome: Any, make_evidence: Any) -> None:
    assert prediction(make_evidence(arms(outcome, narrow, wide))).verdict == expected


def test_what_is_said_follows_the_runs(outcome: Any, make_evidence: Any) -> None:
    # The other way round: only beta in (0, 1) learns.
    evidence = make_evidence(arms(outcome, [LEARNT] * 3, [GUESSED, GUESSED, None]))
    (section,), (row,) = (lambda a: (a.sections, a.predictions))(answer(evidence))
    assert row.happened.startswith(
        "Solved: 3 of 3 seeds with beta in (0, 1), 0 of 3 with beta in (0, 2). "
    )
    assert "at length 64: 1.000 [1.000, 1.000] and 0.510" in row.happened
    assert (section.verdict, list(section.happened)) == ("not as predicted", [row.happened])
    assert section.prediction == row.claim


def test_an_arm_that_diverged_altogether_is_reported(outcome: Any, make_evidence: Any) -> None:
    evidence = make_evidence(arms(outcome, [None] * 3, [None] * 3))
    report = answer(evidence)
    assert "at length 64: not tested and not tested" in report.predictions[0].happened
    assert report.predictions[0].verdict == "not as predicted"
