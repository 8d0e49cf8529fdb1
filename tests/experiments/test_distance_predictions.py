"""Windows that pass, fall short of, or see beyond their reach, and what is said of them."""

from collections.abc import Mapping
from typing import Any

import pytest

from lt2theory.analysis import Influence
from lt2theory.experiments.distance_predictions import (
    BEYOND,
    INSIDE,
    LOOPS,
    REACH,
    field_prediction,
    learning_prediction,
)
from tests.experiments.distance_runs import arms, influence

NONE_SOLVED = {"stages": {8: False}, "tests": {8: 0.5, 9: 0.5}}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "as predicted"),
        # A window that passes beyond its reach, trained there or not.
        ({(BEYOND[1], 0): {"stages": {8: True, 9: True}, "tests": {8: 1.0, 9: 0.95}}},
         "not as predicted"),
        ({(BEYOND[1], 0): {"stages": {8: True, 9: True}, "tests": {8: 1.0, 9: 0.51}}},
         "not as predicted"),
        ({(INSIDE[2], 1): {"tests": {8: 1.0, 15: 1.0, 16: 0.6}}}, "not as predicted"),
        ({(INSIDE[2], 1): {"tests": {8: 1.0, 15: 1.0, 16: 0.4}}}, "not as predicted"),
        # Seeds that fall short of it.
        ({(INSIDE[4], 0): {"stages": {8: True, 15: False}, "tests": {8: 1.0, 15: 0.5, 30: 0.5}}},
         "not as predicted"),
        ({(label, seed): NONE_SOLVED for label in (INSIDE[1], BEYOND[1]) for seed in (0, 1)},
         "not as predicted"),
        # A run that solved up to the reach and diverged one token further was not tested.
        ({(BEYOND[1], 1): {"stages": {8: True}, "tests": {}, "diverged": True}}, "inconclusive"),
    ],
)  # fmt: skip
def test_verdicts(changes: Any, expected: str, outcome: Any, make_evidence: Any) -> None:
    assert learning_prediction(make_evidence(arms(outcome, changes))).verdict == expected


def test_what_is_said_follows_the_runs(outcome: Any, make_evidence: Any) -> None:
    changes: dict[tuple[str, int], Mapping[str, Any]] = {
        (label, seed): NONE_SOLVED for label in (INSIDE[1], BEYOND[1]) for seed in (0, 1)
    }
    changes[BEYOND[2], 0] = {
        "stages": {8: True, 15: True, 16: True}, "tests": {8: 1.0, 15: 1.0, 16: 0.9}
    }  # fmt: skip
    row = learning_prediction(make_evidence(arms(outcome, changes)))
    assert row.happened == (
        "Longest length solved: none with T = 1 (0 of 4 runs), 16 with T = 2 (1 of 4 runs), 29 "
        "with T = 4 (4 of 4 runs). One token beyond the reach the test accuracy of 12 tested runs "
        "differs from the floor 0.5 by at most 0.400."
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({loops: influence(REACH[loops]) for loops in LOOPS}, "as predicted"),
        ({1: influence(8), 2: influence(16), 4: influence(29)}, "not as predicted"),
        ({1: influence(8), 2: influence(14), 4: influence(29)}, "not as predicted"),
        # The furthest token is right, but one within is blind.
        ({1: influence(8), 2: influence(15, holes=(3,)), 4: influence(29)}, "not as predicted"),
        ({1: influence(8), 2: influence(15)}, "inconclusive"),
        ({}, "inconclusive"),
    ],
)
def test_receptive_fields(fields: dict[int, Influence], expected: str) -> None:
    row = field_prediction(fields)
    assert row.verdict == expected
    zeros = 1 if any(not field.support[1, 3] for field in fields.values()) else 0
    assert "Derivatives within the reach that are zero: " in row.happened
    if expected == "as predicted":
        assert "8 with T = 1, 15 with T = 2, 29 with T = 4. " in row.happened
        assert row.happened.endswith(f"{zeros}.")
