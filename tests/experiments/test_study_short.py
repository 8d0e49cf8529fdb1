"""The two tables in front of the study's page."""

from typing import Any

import pytest

from lt2theory.experiments.study_short import recall_in_short, words_in_short
from lt2theory.experiments.study_table import merge
from tests.experiments.study_runs import recall_run, study, word_run


def named(records: list[dict[str, str]], name: str) -> dict[str, str]:
    """The record whose first column says so."""
    return next(record for record in records if name in record.values())


def test_seeds_that_ended_are_counted(outcome: Any, make_evidence: Any) -> None:
    runs = [
        recall_run(outcome, "recall-gdn-window-t4", seed, stage)
        for seed, stage in enumerate((128, 64, 128))
    ]
    runs.append(recall_run(outcome, "recall-gdn-window-t1", 0, 32))
    found = named(recall_in_short(study(make_evidence, runs)), "gdn-window")
    assert found == {
        "solved 128 swaps": "gdn-window",
        "T = 1": "0 of 1",
        "T = 4": "2 of 3",
        "T = 4, settled": "—",
    }


def test_a_seed_on_the_mark_is_not_counted(outcome: Any, make_evidence: Any) -> None:
    far = (1.0, 0.9, 0.2)
    runs = [
        word_run(outcome, arm, seed, value)
        for arm in ("s5-t4-accumulate", "s5-t4-accumulate-settled")
        for seed, value in enumerate(far[: 2 if arm.endswith("settled") else 3])
    ]
    found = named(words_in_short(study(make_evidence, runs, task="group_word")), "S5, T = 4")
    assert (found["accumulate"], found["accumulate, settled"]) == ("1 of 2", "1 of 1")
    assert found["T = 1"] == found["rescan"] == "—"


@pytest.mark.parametrize("records", [recall_in_short, words_in_short])
def test_before_anything_has_run(records: Any) -> None:
    for record in records(merge(())):
        assert set(list(record.values())[1:]) == {"—"}
