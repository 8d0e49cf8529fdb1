from pathlib import Path

import pytest

from lt2theory.bench.doctor.measure import Outcome
from lt2theory.bench.doctor.state import FinishedCases


def test_outcomes_of_other_versions_do_not_count(tmp_path: Path, make_case):
    path = tmp_path / "state.jsonl"
    outcome = Outcome(make_case("chunked"), "right", "")
    FinishedCases(path, {"torch": "2.7"}, 60.0).add(outcome)
    assert FinishedCases(path, {"torch": "2.7"}, 60.0).get(outcome.case) == outcome
    assert FinishedCases(path, {"torch": "2.8"}, 60.0).get(outcome.case) is None


def test_what_hung_is_tried_again_with_more_time(tmp_path: Path, make_case):
    path = tmp_path / "state.jsonl"
    outcome = Outcome(make_case("hanging"), "hung", "hung after 60 s")
    FinishedCases(path, {}, 60.0).add(outcome)
    assert FinishedCases(path, {}, 60.0).get(outcome.case) == outcome
    assert FinishedCases(path, {}, 90.0).get(outcome.case) is None


def test_a_state_file_of_something_else_is_refused(tmp_path: Path):
    path = tmp_path / "state.jsonl"
    path.write_text('{"loss": 1}\n')
    with pytest.raises(ValueError, match="holds something else than the state of a doctor"):
        FinishedCases(path, {}, 60.0)
