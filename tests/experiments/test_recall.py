"""State-based recall: solved or not, above every floor or not."""

from typing import Any

import pytest

from lt2theory.experiments.recall import SEEDS, answer, prediction, question

# Theory H1 for one and two swaps: never named, ignoring swaps.
FLOORS = {
    1: {"never_named": 0.875, "ignores_swaps": 0.8},
    2: {"ignores_swaps": 0.8, "uniform": 0.5},
}
GOOD = {1: 0.97, 2: 0.93}


@pytest.fixture
def judge(outcome: Any, make_evidence: Any) -> Any:
    def make(*seeds: Any) -> Any:
        runs = [
            outcome("dense supervision", seed, diverged=True)
            if tests is None
            else outcome("dense supervision", seed, {s: v > 0.85 for s, v in tests.items()}, tests)
            for seed, tests in enumerate(seeds)
        ]
        return make_evidence(runs, FLOORS)

    return make


def test_the_runs_are_those_that_are_read() -> None:
    configs = question().configs
    assert [config.seed for config in configs] == list(range(SEEDS))
    assert {config.stages for config in configs} == {(1, 2)}


@pytest.mark.parametrize(
    ("seeds", "expected"),
    [
        ((GOOD, GOOD), "as predicted"),
        ((GOOD, {1: 0.97, 2: 0.5}), "not as predicted"),
        ((GOOD, {1: 0.6}), "not as predicted"),
        ((GOOD, None), "not as predicted"),
        # Solved, but the interval of the test holds the best floor.
        ((GOOD, {1: 0.88, 2: 0.93}), "inconclusive"),
        # Solved in training, and below the best floor in the test.
        ((GOOD, {1: 0.86, 2: 0.93}), "not as predicted"),
    ],
)
def test_verdicts(seeds: Any, expected: str, judge: Any) -> None:
    assert prediction(judge(*seeds)).verdict == expected


def test_the_section_follows_the_runs(judge: Any) -> None:
    report = answer(judge({1: 0.6}, None))
    (section,), (row,) = report.sections, report.predictions
    assert row.happened.startswith("Solved: 0 of 2 seeds (rate 0.000 [0.000, 0.842]). Seed 0, 1 s")
    assert "against a best floor of 0.875 (n 4,096)." in row.happened
    assert (section.verdict, list(section.happened)) == ("not as predicted", [row.happened])
    shown = section.tables[-1].frame
    assert dict(zip(shown["floor"], shown["1 swap"], strict=True)) == {
        "ignores swaps": 0.8, "never named": 0.875}  # fmt: skip


def test_runs_that_diverged_altogether_are_reported(judge: Any) -> None:
    report = answer(judge(None, None))
    assert report.predictions[0].happened.endswith("No run was tested.")
    assert report.predictions[0].verdict == "not as predicted"
