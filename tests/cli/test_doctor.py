"""`lt2 doctor`: exit codes, files, refusals, and going on after an interrupt."""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lt2theory.cli.doctor as verb
from lt2theory.bench.doctor import run as bench
from lt2theory.bench.doctor.cases import Sizes
from lt2theory.bench.doctor.kernels import measure
from lt2theory.bench.doctor.kernels.table import KERNELS
from lt2theory.bench.doctor.worker import answer
from lt2theory.cli import main
from lt2theory.ops import RECURRENCES

PLANTED = "tests.bench.doctor.planted_backends"
GDN = ["doctor", "--device", "cpu", "--mixers", "gdn"]


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch):
    """Planted backends, small sizes, and the work done in this process."""
    before = RECURRENCES.backends
    sys.modules.pop(PLANTED, None)
    importlib.import_module(PLANTED)

    def run_jobs(jobs, settings, **options):
        assert settings["imports"] == (PLANTED,)
        yield from ((job, answer(job, settings["device"])) for job in jobs)

    monkeypatch.setattr(verb, "IMPORTS", (PLANTED,))
    monkeypatch.setattr(bench, "run_jobs", run_jobs)
    small = Sizes((16,), ("float32",), (6, 7), ("fresh",))
    monkeypatch.setattr(bench, "sizes_for", lambda device, full: small)
    yield
    object.__setattr__(RECURRENCES, "backends", before)
    sys.modules.pop(PLANTED)


def test_a_healthy_machine_is_exit_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "doctor.json"
    argv = [*GDN, "--backends", "chunked", "refusing", "--json", str(out)]
    assert main(argv) == 0
    content = json.loads(out.read_text())
    assert set(content) == {"environment", "full", "served", "outcomes", "kernels", "advice"}
    assert [row["verdict"] for row in content["outcomes"]] == ["right"] * 2 + ["refused"] * 2
    said = capsys.readouterr().out
    assert "4 cases: 2 right, 2 refused" in said
    assert "refused: planted: take another" in said
    assert max(map(len, said.split("\n"))) <= 100


def test_our_kernels_are_declined_without_a_gpu_and_checked_with_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "is_interpreting", lambda: False)
    monkeypatch.setattr(bench, "plan", lambda sizes, **_: ())
    monkeypatch.setattr(bench.Doctor, "served", lambda self: ())
    out = tmp_path / "doctor.json"
    argv = ["doctor", "--device", "cpu", "--json", str(out)]
    assert main(argv) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "our own Triton kernels, not checked: " in said
    kernels = json.loads(out.read_text())["kernels"]
    assert {row["verdict"] for row in kernels} == {"refused"}
    assert {row["kernel"] for row in kernels} == {check.name for check in KERNELS}
    assert f"{len(kernels)} checks of kernels: {len(kernels)} refused" in said

    found = {"verdict": "wrong", "reason": "value of y: error 1.0e-01"}
    monkeypatch.setattr(bench, "refusal", lambda device: None)
    monkeypatch.setattr(
        bench, "run_jobs", lambda jobs, *_, **__: ((job, job | found) for job in jobs)
    )
    assert main(argv) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "our own kernels that failed: delta inputs, delta rule," in said


@pytest.mark.parametrize(
    ("backend", "said"),
    [
        ("wrong_gradient", "wrong: gradient of beta: error 2.5e-01"),
        ("wrong_at_odd", "avoid backend 'wrong_at_odd' for gdn: wrong in 1 of 2 cases (tokens 7"),
        ("raising", "crashed: RuntimeError: CUDA error: planted second line"),
    ],
)
def test_a_fault_is_exit_1_and_named(
    backend: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*GDN, "--backends", backend]) == 1
    assert said in " ".join(capsys.readouterr().out.split())


def test_an_interrupt_goes_on_with_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state.jsonl"
    whole = bench.run_jobs

    def interrupted(jobs, settings, **options):
        for number, pair in enumerate(whole(jobs, settings)):
            if number == 1 and "case" in pair[0]:
                raise KeyboardInterrupt
            yield pair

    argv = [*GDN, "--backends", "chunked", "reference", "--state", str(state)]
    with monkeypatch.context() as patch:
        patch.setattr(bench, "run_jobs", interrupted)
        assert main(argv) == 130
    assert "the same command goes on where it was" in capsys.readouterr().err
    assert len(state.read_text().splitlines()) == 1
    assert main(argv) == 0
    assert "4 cases: 4 right" in capsys.readouterr().out
    assert len(state.read_text().splitlines()) == 4


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        ("--quick --full", "--quick: not together with --full"),
        (
            "--mixers gdm",
            "--mixers: 'gdm' is not allowed, perhaps you meant gdn (choose from full, window, ",
        ),
        ("--backends zzz", "--backends: 'zzz' is not allowed (choose from reference, chunked, "),
        ("--mixers --full", "--mixers: no value given (leave it out for all)"),
        ("--backends", "--backends: no value given (leave it out for all)"),
        ("--device tpu", "--device: 'tpu' is not there (choose from cpu"),
        ("--limit 0", "--limit: 0.0 is not allowed (should be greater than 0)"),
        ("--workers 0", "--workers: 0 is not allowed (should be greater than or equal to 1)"),
        (
            "--mixers full --backends triton",
            "--backends: none of triton serves full (choose from reference, chunked, ",
        ),
        ("--json no/x.json", "--json: 'no/x.json' cannot be written (no folder no)"),
        ("--state no/x.jsonl", "--state: 'no/x.jsonl' cannot be written (no folder no)"),
    ],
)
def test_refusals(argv: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", *argv.split()]) == 2
    assert capsys.readouterr().err.startswith(f"lt2: error: {line}")


@pytest.mark.parametrize("content", ['{"a": 1}', "a text\nwithout a last line end", "x"])
def test_a_foreign_state_file_is_untouched(
    content: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "c.json"
    state.write_text(content)
    assert main([*GDN, "--backends", "chunked", "--state", str(state)]) == 2
    assert capsys.readouterr().err.startswith(f"lt2: error: {state} ")
    assert state.read_text() == content


def test_a_state_that_is_the_json_too_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state, link, hard = tmp_path / "s", tmp_path / "link", tmp_path / "hard"
    link.symlink_to("s")
    for path in (state, tmp_path / "." / "s", link):
        assert main([*GDN, "--state", str(state), "--json", str(path)]) == 2
        assert "is not allowed (it is the --state file)" in capsys.readouterr().err
    state.write_text("")
    os.link(state, hard)
    assert main([*GDN, "--state", str(state), "--json", str(hard)]) == 2
    assert "--json: " in capsys.readouterr().err
    assert state.read_text() == ""


def test_a_state_through_a_link(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("state.jsonl")
    assert main([*GDN, "--backends", "chunked", "--state", str(link)]) == 0
    assert link.is_symlink()
    assert len((tmp_path / "state.jsonl").read_text().splitlines()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_temporary_folder(number: signal.Signals, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "lt2theory", *GDN, "--backends", "chunked"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)},
        # The tests themselves may have been started by nohup, under which it is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 120
    while not list(tmp_path.glob("lt2-doctor-*")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.startswith("lt2: interrupted; with --state FILE the same command")
    assert not list(tmp_path.iterdir())
