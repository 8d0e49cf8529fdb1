"""The distance probe: windows that pass, fall short of, or see beyond their reach."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from lt2theory.analysis import Influence
from lt2theory.experiments import distance
from lt2theory.experiments.distance import (
    BEYOND,
    INSIDE,
    LOOPS,
    REACH,
    answer,
    field_prediction,
    learning_prediction,
    question,
)


def stages(loops: int) -> list[int]:
    return [7 * times + 1 for times in range(1, loops + 1)]


def arms(outcome: Any, changes: Mapping[tuple[str, int], Mapping[str, Any]]) -> list[Any]:
    """Runs as W1 wants them, but for `changes` by arm and seed."""
    runs = []
    for loops, edge in REACH.items():
        for label in (INSIDE[loops], BEYOND[loops]):
            for seed in range(2):
                trained = dict.fromkeys(stages(loops), True)
                tests = dict.fromkeys(stages(loops), 1.0) | {edge + 1: 0.505}
                if label == BEYOND[loops]:
                    trained[edge + 1] = False
                fields = {"stages": trained, "tests": tests} | changes.get((label, seed), {})
                runs.append(outcome(label, seed, **fields))
    return runs


def test_the_reach_is_that_of_the_runs() -> None:
    assert REACH == {1: 8, 2: 15, 4: 29}
    for config in question().configs:
        edge = REACH[config.model.num_loops]
        assert config.label in (INSIDE[config.model.num_loops], BEYOND[config.model.num_loops])
        assert max((*config.stages, *config.test_stages)) == edge + 1


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


def influence(reach: int, *, holes: tuple[int, ...] = (), length: int = 37) -> Influence:
    support = np.arange(length)[None, :].repeat(2, 0) < reach
    support[1, list(holes)] = False
    return Influence(support / 2.0, support, length - 1, 4, True)


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


def test_the_sections_follow_the_runs(
    outcome: Any, make_evidence: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {INSIDE[1]: influence(8), INSIDE[2]: influence(15, holes=(3,))}
    monkeypatch.setattr(
        distance, "last_token_influence",
        lambda folder, length: fields[folder.name.removesuffix("0")],
    )  # fmt: skip
    changes = {(INSIDE[4], 0): {"stages": {}, "tests": {}, "diverged": True}}
    report = answer(make_evidence(arms(outcome, changes)))
    learnt, field = report.sections
    assert [row.verdict for row in report.predictions] == ["not as predicted"] * 2
    assert (learnt.verdict, field.verdict) == ("not as predicted", "not as predicted")
    table = learnt.tables[0].frame
    assert table[table["within reach"] == "no"]["solved"].tolist() == ["0 of 2 seeds"] * 3
    assert field.tables[0].frame["measured reach"].tolist() == ["8", "15"]


def test_runs_that_diverged_altogether_are_reported(outcome: Any, make_evidence: Any) -> None:
    runs = [
        outcome(label, seed, diverged=True)
        for labels in (INSIDE, BEYOND)
        for label in labels.values()
        for seed in range(2)
    ]
    report = answer(make_evidence(runs))
    assert [row.verdict for row in report.predictions] == ["not as predicted", "inconclusive"]
    assert report.predictions[0].happened.endswith(
        "One token beyond the reach the test accuracy was not tested."
    )
