"""What the check of a kernel finds, with kernels that are plain functions."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from lt2theory.bench.doctor.kernels import measure as module
from lt2theory.bench.doctor.kernels.check import Draw, KernelCheck, Problem, Tensors, one_hot
from lt2theory.bench.doctor.kernels.measure import KernelOutcome, measure_kernel, refusal

Run = Callable[[Tensors], Tensors]


def double(x: Tensors) -> Tensors:
    return {"y": 2.0 * x["x"]}


def found_with(monkeypatch: pytest.MonkeyPatch, run: Run, **changes: object) -> KernelOutcome:
    def build(draw: Draw) -> Problem:
        return Problem({"x": draw.normal(5, 7)}, run, double)

    check = replace(KernelCheck("planted", (), build), **changes)  # type: ignore[arg-type]
    monkeypatch.setattr(module, "KERNELS", (check,))
    before = torch.are_deterministic_algorithms_enabled()
    outcome = measure_kernel("planted", "float32", "cpu")
    assert torch.are_deterministic_algorithms_enabled() == before
    assert KernelOutcome.from_json(outcome.to_json()) == outcome
    return outcome


def test_right(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = found_with(monkeypatch, double)
    assert (outcome.verdict, outcome.same_bits, outcome.value_error) == ("right", True, 0.0)
    assert not outcome.failed


def test_a_wrong_value_and_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = found_with(monkeypatch, lambda x: {"y": 2.1 * x["x"]})
    assert outcome.verdict == "wrong"
    assert "value of y: error 5.0e-02, gradient of x: error 5.0e-02" in outcome.reason


def test_what_is_not_written_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    def part(x: Tensors) -> Tensors:
        y = torch.empty_like(x["x"])
        y[:4] = 2.0 * x["x"][:4].detach()
        return {"y": y}

    outcome = found_with(monkeypatch, part)
    assert outcome.verdict == "wrong"
    assert outcome.value_error is None


def test_other_bits_the_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = itertools.count()

    def drifting(x: Tensors) -> Tensors:
        return {"y": (2.0 + 1e-6 * (next(calls) % 7)) * x["x"]}

    outcome = found_with(monkeypatch, drifting)
    assert (outcome.verdict, outcome.same_bits) == ("wrong", False)
    assert outcome.reason == "two runs have different bits"
    assert found_with(monkeypatch, drifting, repeats=False).verdict == "right"


def test_what_is_left_of_the_first_problem_is_wrong_for_the_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept: list[Tensors] = []

    def lazy(x: Tensors) -> Tensors:
        kept.append({"y": 2.0 * x["x"].detach()})
        return {"y": kept[0]["y"] + 0.0 * x["x"]}

    assert found_with(monkeypatch, lazy).verdict == "wrong"


def test_an_exception_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(x: Tensors) -> Tensors:
        raise RuntimeError("out of  shared\nmemory")

    outcome = found_with(monkeypatch, raising)
    assert (outcome.verdict, outcome.reason) == ("crashed", "RuntimeError: out of shared memory")
    assert outcome.failed


def test_refusals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "is_interpreting", lambda: False)
    if module.importlib.util.find_spec("triton") is not None:
        assert refusal("cpu") == "Triton kernels run on CUDA tensors, not on cpu"
        assert refusal("cuda:1") is None
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    assert refusal("cuda") == "triton is not installed"


def test_a_wrong_number_counts() -> None:
    right = torch.arange(40)
    wrong = right.clone()
    wrong[17] = 18
    error = (one_hot(wrong, 40) - one_hot(right, 40)).norm() / one_hot(right, 40).norm()
    assert error > 0.2
    assert one_hot(torch.tensor([-1, 2]), 3).tolist() == [[1, 0, 0, 0], [0, 0, 0, 1]]
