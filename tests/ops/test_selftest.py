"""The self-test with backends made up for the purpose, on a CPU."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from lt2theory.ops import Factors, selftest
from lt2theory.ops.chunked.recurrence import chunked_recurrence
from lt2theory.ops.selftest import find_verdict, run_self_test
from lt2theory.ops.selftest_recurrence import RecurrenceClass

SHAPE = RecurrenceClass("kernel", "cpu", "a device", torch.float32, 2, 8, 6, "scalar", True)

State = Tensor | None


class _Scaled(torch.autograd.Function):
    """The identity, with a gradient that is wrong by a factor."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


def planted(name: str, factor: float) -> Callable[[Factors, State], tuple[Tensor, Tensor]]:
    """A backend with right values whose gradient of one input is wrong."""

    def run(factors: Factors, state: State) -> tuple[Tensor, Tensor]:
        if name == "state":
            return chunked_recurrence(factors, _Scaled.apply(state, factor))
        wrong = _Scaled.apply(getattr(factors, name), factor)
        return chunked_recurrence(replace(factors, **{name: wrong}), state)

    return run


class Counted:
    def __init__(self) -> None:
        self.runs = 0

    def __call__(self, factors: Factors, state: State) -> tuple[Tensor, Tensor]:
        self.runs += 1
        return chunked_recurrence(factors, state)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LT2_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(selftest, "_VERDICTS", {})
    return tmp_path


def forget() -> None:
    """What another process would know."""
    selftest._VERDICTS.clear()


@pytest.mark.parametrize("decay", ["none", "scalar", "vector"])
@pytest.mark.parametrize("erases", [False, True])
@pytest.mark.parametrize("own_write", [False, True])
def test_a_right_backend_passes(decay: str, erases: bool, own_write: bool) -> None:
    shape = replace(SHAPE, decay=decay, erases=erases, own_write=own_write)
    verdict = run_self_test(shape, chunked_recurrence)
    assert verdict.passed
    assert verdict.error is not None
    assert verdict.error < 1e-5
    assert str(verdict).startswith("gradient self-test passed: ")


@pytest.mark.parametrize("name", ["q", "k", "v", "log_decay", "beta", "state", "write"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_planted_gradient_is_caught(name: str, dtype: torch.dtype) -> None:
    shape = replace(SHAPE, dtype=dtype, own_write=name == "write")
    verdict = run_self_test(shape, planted(name, 1.04))
    assert not verdict.passed
    assert verdict.worst == f"gradient of {name}"
    assert verdict.error == pytest.approx(0.04, rel=0.1)
    assert "failed" in str(verdict)


def test_wrong_values_are_caught() -> None:
    def run(factors: Factors, state: State) -> tuple[Tensor, Tensor]:
        output, final = chunked_recurrence(factors, state)
        return output.detach() * 1.01 + (output - output.detach()), final

    verdict = run_self_test(SHAPE, run)
    assert (verdict.passed, verdict.worst) == (False, "output")


def test_nan_and_exceptions_fail() -> None:
    verdict = run_self_test(SHAPE, planted("k", float("nan")))
    assert (verdict.passed, verdict.worst) == (False, "gradient of k")

    def crash(factors: Factors, state: State) -> tuple[Tensor, Tensor]:
        raise RuntimeError("illegal memory access")

    verdict = run_self_test(SHAPE, crash)
    assert (verdict.passed, verdict.error) == (False, None)
    assert str(verdict) == "gradient self-test failed: RuntimeError: illegal memory access"


def test_it_runs_where_no_gradient_is_recorded() -> None:
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        assert run_self_test(SHAPE, chunked_recurrence).passed


def test_once_a_process_and_once_a_machine(folder: Path) -> None:
    run = Counted()
    first = find_verdict(SHAPE, run)
    assert find_verdict(SHAPE, run) is first
    forget()
    assert find_verdict(SHAPE, run) == first
    assert run.runs == 1
    assert len(list(folder.glob("selftest/*.json"))) == 1


def test_a_failure_is_remembered_too() -> None:
    assert not find_verdict(SHAPE, planted("k", 2.0)).passed
    forget()
    assert not find_verdict(SHAPE, chunked_recurrence).passed


@pytest.mark.parametrize(
    "other",
    [
        {"kernel": "other"},
        {"device_name": "another device"},
        {"dtype": torch.float16},
        {"num_heads": 3},
        {"key_width": 9},
        {"value_width": 7},
        {"decay": "vector"},
        {"erases": False},
        {"own_write": True},
    ],
)
def test_every_part_of_the_class_counts(other: dict[str, object]) -> None:
    run = Counted()
    find_verdict(SHAPE, run)
    forget()
    find_verdict(replace(SHAPE, **other), run)
    assert run.runs == 2


def test_other_versions_are_tested_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Counted()
    find_verdict(SHAPE, run)
    forget()
    monkeypatch.setattr(selftest, "installed_version", lambda package: "9.9")
    find_verdict(SHAPE, run)
    assert run.runs == 2


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[1]",
        "{}",
        '{"verdict": {"passed": true}}',
        '{"verdict": {"passed": true, "worst": "k", "error": 0.0, "tolerance": 0.1}, "class": {}}',
    ],
)
def test_a_corrupt_cache_is_ignored(folder: Path, content: str) -> None:
    run = Counted()
    verdict = find_verdict(SHAPE, run)
    (path,) = folder.glob("selftest/*.json")
    path.write_text(content)
    forget()
    assert find_verdict(SHAPE, run) == verdict
    assert run.runs == 2
    assert json.loads(path.read_text())["verdict"]["passed"] is True


@pytest.mark.parametrize("field", ["passed", "worst", "error", "tolerance"])
def test_a_field_of_a_wrong_type_is_ignored(folder: Path, field: str) -> None:
    run = Counted()
    find_verdict(SHAPE, run)
    (path,) = folder.glob("selftest/*.json")
    stored = json.loads(path.read_text())
    stored["verdict"][field] = None
    path.write_text(json.dumps(stored))
    forget()
    assert find_verdict(SHAPE, run).passed
    assert run.runs == 2


def test_a_folder_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    blocked = folder / "file"
    blocked.write_text("")
    monkeypatch.setenv("LT2_CACHE_DIR", str(blocked))
    assert find_verdict(SHAPE, chunked_recurrence).passed


def test_what_did_not_finish_is_tried_again_by_the_next_process(folder: Path) -> None:
    def crash(factors: Factors, state: State) -> tuple[Tensor, Tensor]:
        raise torch.OutOfMemoryError

    assert not find_verdict(SHAPE, crash).passed
    assert not list(folder.glob("selftest/*"))


def test_a_checkpointed_part_does_not_save_what_the_first_self_test_saves() -> None:
    """The second run finds the verdict and saves less, which torch's checkpoint would refuse."""
    counted = Counted()

    def part(x: Tensor) -> Tensor:
        find_verdict(SHAPE, counted)
        return x.sin()

    x = torch.ones(3, requires_grad=True)
    checkpoint(part, x, use_reentrant=False).sum().backward()
    assert counted.runs > 0
    assert x.grad is not None
    torch.testing.assert_close(x.grad, x.detach().cos())
