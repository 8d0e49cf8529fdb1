"""The doctor as a whole: nothing that breaks takes the rest along, and nothing is done twice."""

import json
import math
from pathlib import Path

import pytest
import torch

from lt2theory.bench.doctor import run as module
from lt2theory.bench.doctor.cases import Sizes
from lt2theory.bench.doctor.diagnosis import Diagnosis
from lt2theory.bench.doctor.pool import Died
from lt2theory.bench.doctor.run import Doctor, Settings
from lt2theory.bench.doctor.worker import answer

PLANTED = "tests.bench.doctor.planted_backends"
NAMES = (
    "wrong_gradient", "wrong_at_odd", "not_a_number", "raising", "dying", "hanging", "refusing",
)  # fmt: skip
SMALL = Sizes((16,), ("float32",), (6, 7), ("fresh",))


def in_this_process(jobs, settings, **options):
    for job in jobs:
        yield job, json.loads(json.dumps(answer(job, settings["device"])))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            Settings(mixers=("gdm",)),
            r"mixers: 'gdm' is not allowed, perhaps you meant gdn \(choose from full, ",
        ),
        (Settings(backends=("zzz",)), r"backends: 'zzz' is not allowed \(choose from reference, "),
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
        torn.write(state.read_bytes()[:50])
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


def test_what_is_named_twice_is_done_once(monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []

    def run(jobs, settings, **options):
        asked.extend(job["choose"] for job in jobs)
        return in_this_process(jobs, settings)

    monkeypatch.setattr(module, "run_jobs", run)
    names = {"mixers": ("gdn", "full", "gdn"), "backends": ("chunked", "chunked")}
    doctor = Doctor(Settings(**names), SMALL)
    once = Doctor(Settings(mixers=("gdn", "full"), backends=("chunked",)), SMALL)
    assert doctor.cases == once.cases
    assert [each.mixer for each in doctor.served()] == ["gdn", "full"] == asked
