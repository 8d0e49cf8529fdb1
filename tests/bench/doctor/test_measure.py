"""What is measured of a case: planted faults are found and named."""

import json

import pytest

from lt2theory.bench.doctor.inputs import prepare, tensors_of
from lt2theory.bench.doctor.measure import Outcome, measure
from lt2theory.mixers import MIXERS


def test_a_planted_wrong_gradient_is_named_with_its_size(planted, make_case):
    for length in (6, 7):
        found = measure(make_case("wrong_gradient", length), "cpu")
        assert (found.verdict, found.worst_gradient) == ("wrong", "beta")
        assert found.gradient_error == pytest.approx(0.25, rel=1e-4)
        assert found.value_error is not None
        assert found.value_error < 1e-5
        assert found.reason == "gradient of beta: error 2.5e-01 (asked for by name)"


def test_what_is_wrong_at_odd_lengths_only_is_found_there_and_not_elsewhere(planted, make_case):
    assert measure(make_case("wrong_at_odd", 6), "cpu").verdict == "right"
    found = measure(make_case("wrong_at_odd", 7), "cpu")
    assert found.verdict == "wrong"
    assert found.value_error is not None
    assert found.value_error > 0.01
    assert "value of o" in found.reason


def test_a_number_that_is_none_is_wrong_and_fits_into_json(planted, make_case):
    found = measure(make_case("not_a_number"), "cpu")
    assert (found.verdict, found.value_error, found.gradient_error) == ("wrong", None, None)
    assert "value of o: error inf" in found.reason
    assert Outcome.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False))) == found


def test_a_refusal_and_an_exception_are_verdicts(planted, make_case):
    refused = measure(make_case("refusing"), "cpu")
    assert (refused.verdict, refused.reason) == ("refused", "planted: take another")
    assert not refused.failed
    crashed = measure(make_case("raising"), "cpu")
    assert (crashed.verdict, crashed.failed) == ("crashed", True)
    assert crashed.reason == "RuntimeError: CUDA error: planted second line"


@pytest.mark.parametrize("mixer", MIXERS)
@pytest.mark.parametrize("start", ["fresh", "continued"])
def test_every_mixer_is_right_in_plain_torch(mixer, start, make_case):
    for backend in ("reference", "chunked"):
        found = measure(make_case(backend, mixer=mixer, start=start), "cpu")
        assert found.verdict == "right", found
        assert found.worst_gradient in {*tensors_of(prepare(mixer, width=16, length=2)),
                                        "initial_state"}  # fmt: skip
