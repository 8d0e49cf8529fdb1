"""S3: its runs, and sections that follow them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lt2theory.experiments import word_problem
from lt2theory.experiments.word_problem import answer, question
from lt2theory.experiments.word_problem_predictions import ACCUMULATE, LENGTH, ONE, RESCAN
from tests.experiments.word_problem_runs import ARMS, CODES, arms, ranks


def test_the_runs_are_those_that_are_read() -> None:
    configs = question().configs
    assert {config.label for config in configs} == set(ARMS)
    assert {config.stages for config in configs} == {(LENGTH,)}
    assert {config.test_stages for config in configs} == {(2 * LENGTH, 4 * LENGTH)}


def test_the_sections_follow_the_runs(
    outcome: Any, make_evidence: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first prediction fails and the second is open: their section says the worse of both."""
    measured: list[Path] = []

    def fake(folder: Path, stage: int) -> None:
        measured.append(folder)
        assert stage == LENGTH

    monkeypatch.setattr(word_problem, "held_out_trace", fake)
    found = ranks([1, 1, 1], [2, 2, 3], [True] * 3)
    monkeypatch.setattr(word_problem, "transition_ranks", lambda _: found)
    monkeypatch.setattr(word_problem, "found_codes", lambda *_: CODES)
    evidence = make_evidence(arms(outcome, (5, 4, 2), diverged=(ACCUMULATE,)))
    report = answer(evidence)
    learnt, rank = report.sections
    assert [row.verdict for row in report.predictions] == [
        "not as predicted", "inconclusive", "not as predicted"]  # fmt: skip
    assert (learnt.verdict, rank.verdict) == ("not as predicted", "not as predicted")
    assert "3 with T = 2" in rank.happened[0]
    assert "in 4 of 4 models a head carries the standard representation" in rank.happened[1]
    assert "n - cycles on its key directions, within 0.02 in the mean" in rank.happened[1]
    assert "off by 0.60 at least" in rank.happened[1]
    assert rank.tables[1].frame["key directions"].tolist() == ["2 of 8", "1 of 8"] * 4
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


def test_the_recipes_are_shown_beside_the_arms(outcome: Any, make_evidence: Any) -> None:
    table = word_problem._recipes(make_evidence([outcome(RESCAN, 0, {16: False})]))
    assert list(table["arm"]) == [RESCAN, ACCUMULATE, ONE]
    assert list(table["FFN width"]) == [64, 176, 176]
    assert list(table["learning rate"]) == [6e-3, 1.2e-3, 7.5e-3]
    assert list(table["parameters"]) == ["unknown"] * 3
