"""The doctor: planted faults are found and named, and nothing that breaks takes the rest along."""

import importlib
import json
import math
import sys
from pathlib import Path

import pytest
import torch

from lt2theory.bench.doctor import run as module
from lt2theory.bench.doctor.advice import advise
from lt2theory.bench.doctor.cases import Case, Sizes, backends_of, plan, sizes_for
from lt2theory.bench.doctor.choices import Served, find_served
from lt2theory.bench.doctor.inputs import cast, prepare, split, tensors_of
from lt2theory.bench.doctor.measure import Outcome, measure
from lt2theory.bench.doctor.pool import Died
from lt2theory.bench.doctor.run import Diagnosis, Doctor, Settings
from lt2theory.bench.doctor.state import FinishedCases
from lt2theory.bench.doctor.worker import answer
from lt2theory.mixers import MIXERS
from lt2theory.ops import RECURRENCES, run_factors
from lt2theory.ops.factors import Factors

PLANTED = "tests.bench.doctor.planted_backends"
NAMES = (
    "wrong_gradient", "wrong_at_odd", "not_a_number", "raising", "dying", "hanging", "refusing",
)  # fmt: skip
SMALL = Sizes((16,), ("float32",), (6, 7), ("fresh",))


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch):
    before = RECURRENCES.backends
    sys.modules.pop(PLANTED, None)
    yield importlib.import_module(PLANTED)
    object.__setattr__(RECURRENCES, "backends", before)
    sys.modules.pop(PLANTED)


def in_this_process(jobs, settings, **options):
    for job in jobs:
        yield job, json.loads(json.dumps(answer(job, settings["device"])))


def case(backend: str, length: int = 7, *, mixer: str = "gdn", start: str = "fresh") -> Case:
    return Case(mixer, backend, "float32", 16, length, start)  # type: ignore[arg-type]


def test_a_planted_wrong_gradient_is_named_with_its_size(planted):
    for length in (6, 7):
        found = measure(case("wrong_gradient", length), "cpu")
        assert (found.verdict, found.worst_gradient) == ("wrong", "beta")
        assert found.gradient_error == pytest.approx(0.25, rel=1e-4)
        assert found.value_error is not None
        assert found.value_error < 1e-5
        assert found.reason == "gradient of beta: error 2.5e-01 (asked for by name)"


def test_what_is_wrong_at_odd_lengths_only_is_found_there_and_not_elsewhere(planted):
    assert measure(case("wrong_at_odd", 6), "cpu").verdict == "right"
    found = measure(case("wrong_at_odd", 7), "cpu")
    assert found.verdict == "wrong"
    assert found.value_error is not None
    assert found.value_error > 0.01
    assert "value of o" in found.reason


def test_a_number_that_is_none_is_wrong_and_fits_into_json(planted):
    found = measure(case("not_a_number"), "cpu")
    assert (found.verdict, found.value_error, found.gradient_error) == ("wrong", None, None)
    assert "value of o: error inf" in found.reason
    assert Outcome.from_json(json.loads(json.dumps(found.to_json(), allow_nan=False))) == found


def test_a_refusal_and_an_exception_are_verdicts(planted):
    refused = measure(case("refusing"), "cpu")
    assert (refused.verdict, refused.reason) == ("refused", "planted: take another")
    assert not refused.failed
    crashed = measure(case("raising"), "cpu")
    assert (crashed.verdict, crashed.failed) == ("crashed", True)
    assert crashed.reason == "RuntimeError: CUDA error: planted second line"


@pytest.mark.parametrize("mixer", MIXERS)
@pytest.mark.parametrize("start", ["fresh", "continued"])
def test_every_mixer_is_right_in_plain_torch(mixer, start):
    for backend in ("reference", "chunked"):
        found = measure(case(backend, mixer=mixer, start=start), "cpu")
        assert found.verdict == "right", found
        assert found.worst_gradient in {*tensors_of(prepare(mixer, width=16, length=2)),
                                        "initial_state"}  # fmt: skip


@pytest.mark.parametrize("mixer", MIXERS)
def test_inputs_are_the_mixers_own_and_continue_where_they_were_cut(mixer):
    whole = prepare(mixer, width=16, length=7)
    first, rest = split(whole, 3)
    assert first.q.shape[1] == 3
    assert rest.q.shape[1] == 4
    if isinstance(whole, Factors) and whole.log_write is None:
        expected, state = run_factors(whole, backend="reference")
        _, before = run_factors(first, backend="reference")
        found, after = run_factors(rest, initial_state=before, backend="reference")
        torch.testing.assert_close(found, expected[:, 3:])
        torch.testing.assert_close(after, state)
    elif not isinstance(whole, Factors):
        assert rest.k is whole.k
    half = cast(whole, torch.bfloat16, "cpu")
    assert all(x.dtype == torch.bfloat16 for x in tensors_of(half).values())


def test_every_mixer_has_a_server_on_this_machine():
    for mixer in MIXERS:
        found = find_served(mixer, "cpu")
        assert (found.backend, found.dtype) == ("chunked", "float32")
        assert Served.from_json(json.loads(json.dumps(found.to_json()))) == found
    assert dict(find_served("gdn", "cpu").passed_over)["fla"].startswith("its Triton kernels run")


def test_the_plan_covers_every_mixer_and_backend_of_its_op():
    cases = plan(sizes_for("cpu", full=False))
    assert {c.mixer for c in cases} == set(MIXERS)
    assert {c.backend for c in cases if c.mixer == "gdn"} == set(backends_of("gdn"))
    assert not any((c.backend, c.dtype) == ("reference", "float64") for c in cases)
    assert len(set(cases)) == len(cases)
    full = plan(sizes_for("cuda", full=True), mixers=["gdn"], backends=["chunked"])
    assert {c.width for c in full} == {16, 32, 64, 100, 128}
    assert {c.dtype for c in full} == {"bfloat16", "float16", "float32"}
    assert sum(length % 2 for length in {c.length for c in full}) >= 3


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (Settings(mixers=("gdm",)), r"mixers: 'gdm' is not one \(choose from full, "),
        (Settings(backends=("flo",)), r"backends: 'flo' is not one \(choose from reference, "),
        (Settings(device="cuda:99"), "device: 'cuda:99' is not there"),
    ],
)
def test_names_that_do_not_exist_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        Doctor(settings)


def test_a_resumed_diagnosis_repeats_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []

    def run(jobs, settings, **options):
        asked.extend(job["case"]["backend"] for job in jobs)
        return in_this_process(jobs, settings)

    monkeypatch.setattr(module, "run_jobs", run)
    state = tmp_path / "state.jsonl"
    settings = Settings(mixers=("gdn",), backends=("reference", "chunked"), state=state)
    interrupted = Doctor(settings, SMALL).outcomes()
    done = [next(interrupted), next(interrupted)]
    interrupted.close()
    with state.open("ab") as torn:
        torn.write(b'{"key": "half a li')
    asked.clear()
    doctor = Doctor(settings, SMALL)
    outcomes = list(doctor.outcomes())
    assert outcomes[:2] == done
    assert asked == ["chunked", "chunked"]
    assert [outcome.case for outcome in outcomes] == list(doctor.cases)
    asked.clear()
    assert doctor.diagnosis(()).outcomes == tuple(outcomes)
    assert list(Doctor(settings, SMALL).outcomes()) == outcomes
    assert not asked


def test_outcomes_of_other_versions_do_not_count(tmp_path: Path):
    path = tmp_path / "state.jsonl"
    outcome = Outcome(case("chunked"), "right", "")
    FinishedCases(path, {"torch": "2.7"}, 60.0).add(outcome)
    assert FinishedCases(path, {"torch": "2.7"}, 60.0).get(outcome.case) == outcome
    assert FinishedCases(path, {"torch": "2.8"}, 60.0).get(outcome.case) is None


def test_what_hung_is_tried_again_with_more_time(tmp_path: Path):
    path = tmp_path / "state.jsonl"
    outcome = Outcome(case("hanging"), "hung", "hung after 60 s")
    FinishedCases(path, {}, 60.0).add(outcome)
    assert FinishedCases(path, {}, 60.0).get(outcome.case) == outcome
    assert FinishedCases(path, {}, 90.0).get(outcome.case) is None


def test_a_state_file_of_something_else_is_refused(tmp_path: Path):
    path = tmp_path / "state.jsonl"
    path.write_text('{"loss": 1}\n')
    with pytest.raises(ValueError, match="holds something else than the state of a doctor"):
        FinishedCases(path, {}, 60.0)


def test_json_round_trip(planted, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "run_jobs", in_this_process)
    doctor = Doctor(Settings(mixers=("gdn",), backends=("wrong_gradient", "chunked")), SMALL)
    served = doctor.served()
    assert len(list(doctor.outcomes())) == 4
    diagnosis = doctor.diagnosis(served)
    text = json.dumps(diagnosis.to_json(), allow_nan=False)
    assert Diagnosis.from_json(json.loads(text)) == diagnosis
    assert not diagnosis.healthy
    assert diagnosis.environment["packages"]["torch"] == torch.__version__


def test_advice_says_where_and_how(planted):
    cases = [case(name, length) for name in ("wrong_at_odd", "raising") for length in (6, 7)]
    outcomes = tuple(measure(c, "cpu") for c in cases)
    environment = {"device_type": "cuda", "architecture": "hopper", "packages": {
        "triton": "3.6.0", "fla-core": "0.6.0", "einops": None}}  # fmt: skip
    served = (Served("gdn", "float32", "", "RuntimeError: no"),)
    said = advise(Diagnosis(environment, False, served, outcomes))
    assert said[0].startswith("install einops (pip install einops)")
    assert said[1].startswith("avoid backend 'raising' for gdn: crashed in 1 of 2 cases (tokens 7")
    assert said[2].startswith("avoid backend 'wrong_at_odd' for gdn: wrong in 1 of 2 cases (tokens")
    assert any("issues/640" in text and "Remedy: Triton 3.7.1" in text for text in said)
    assert not any("issues/984" in text for text in said)  # FLA 0.6.0 has the fix
    assert said[-1] == "gdn has no backend here: RuntimeError: no"
    healthy = Diagnosis({**environment, "packages": {
        "triton": "3.9.0", "fla-core": "0.6.0", "einops": "0.8"}, "architecture": "ampere"},
        False, (), ())  # fmt: skip
    assert not any("avoid" in text.split() for text in advise(healthy))


@pytest.mark.slow
def test_nothing_that_breaks_takes_the_rest_along(planted):
    """Real processes: a death by signal, a hang and an exception cost their own case alone."""
    limit = 8.0
    settings = Settings(mixers=("gdn",), backends=NAMES, limit=limit, workers=2, imports=(PLANTED,))
    doctor = Doctor(settings, SMALL)
    found = {(o.case.backend, o.case.length): o for o in doctor.outcomes()}
    assert set(found) == {(name, length) for name in NAMES for length in (6, 7)}
    verdicts = {name: (found[name, 6].verdict, found[name, 7].verdict) for name in NAMES}
    assert verdicts == {
        "wrong_gradient": ("wrong", "wrong"),
        "wrong_at_odd": ("right", "wrong"),
        "not_a_number": ("right", "wrong"),
        "raising": ("right", "crashed"),
        "dying": ("right", "crashed"),
        "hanging": ("right", "hung"),
        "refusing": ("refused", "refused"),
    }
    assert found["hanging", 7].reason == "hung after 8 s"
    assert found["dying", 7].reason.startswith("the process ended with signal SIGSEGV")
    assert math.isclose(found["wrong_gradient", 7].gradient_error or 0, 0.25, rel_tol=1e-4)


@pytest.mark.slow
def test_a_process_that_cannot_start_is_an_error_at_once():
    doctor = Doctor(Settings(mixers=("gdn",), backends=("chunked",)), SMALL)
    object.__setattr__(doctor._settings, "imports", ("no_such_module",))
    with pytest.raises(RuntimeError, match=r"did not start: .*No module named 'no_such_module'"):
        list(doctor.outcomes())


def test_the_death_of_a_process_becomes_an_outcome(monkeypatch: pytest.MonkeyPatch):
    ends = {"reference": Died("hung after 9 s", hung=True), "chunked": Died("exit", hung=False)}
    monkeypatch.setattr(
        module, "run_jobs", lambda jobs, *_, **__: ((j, ends[j["case"]["backend"]]) for j in jobs)
    )
    doctor = Doctor(Settings(mixers=("gdn",), backends=("reference", "chunked")), SMALL)
    found = [(o.case.backend, o.verdict, o.reason) for o in doctor.outcomes()]
    assert found[0] == ("reference", "hung", "hung after 9 s")
    assert found[-1] == ("chunked", "crashed", "exit")
