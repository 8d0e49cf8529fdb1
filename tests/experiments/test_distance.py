"""The distance probe: its runs, and sections that follow them."""

from typing import Any

import pytest

from lt2theory.experiments import distance
from lt2theory.experiments.distance import answer, question
from lt2theory.experiments.distance_predictions import BEYOND, INSIDE, REACH
from tests.experiments.distance_runs import arms, influence


def test_the_reach_is_that_of_the_runs() -> None:
    assert REACH == {1: 8, 2: 15, 4: 29}
    for config in question().configs:
        edge = REACH[config.model.num_loops]
        assert config.label in (INSIDE[config.model.num_loops], BEYOND[config.model.num_loops])
        assert max((*config.stages, *config.test_stages)) == edge + 1


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
