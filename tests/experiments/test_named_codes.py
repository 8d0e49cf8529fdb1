"""What all seeds found, in a sentence and a table."""

from typing import Any

import pandas as pd
import pytest

from lt2theory.experiments.named_codes import code_table, found_codes, said_of_codes
from lt2theory.experiments.recipes import parity, word_problem
from tests.experiments.word_problem_runs import CODES


def test_the_largest_representation_is_counted() -> None:
    said = said_of_codes({0: CODES, 1: CODES.assign(kind="unclear"), 2: pd.DataFrame()}, "arm")
    assert said.startswith("arm: in 1 of 3 models a head carries the standard representation")
    assert code_table({0: CODES, 2: pd.DataFrame()})["seed"].tolist() == [0, 0]


def test_nothing_carried_is_said() -> None:
    assert said_of_codes({0: pd.DataFrame()}, "arm") == (
        "arm: no representation is carried in any of the 1 models."
    )
    assert code_table({0: pd.DataFrame()}).empty


def test_a_run_that_learnt_nothing_found_nothing(saved_run: Any) -> None:
    assert found_codes(saved_run(word_problem()), 16).empty


def test_other_tasks_are_refused(saved_run: Any) -> None:
    with pytest.raises(ValueError, match=r"parity is not allowed \(must be group_word\)"):
        found_codes(saved_run(parity()), 16)
