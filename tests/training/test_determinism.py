"""Deterministic runs: what is switched, what is put back, what is refused, and the same bytes."""

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from lt2theory.models import LoopedConfig
from lt2theory.ops.registry import Backend, Registry
from lt2theory.training import CurriculumConfig, run_curriculum
from lt2theory.training.determinism import (
    CUBLAS_VARIABLE,
    check_determinism,
    deterministic_algorithms,
)

MakeConfig = Callable[..., CurriculumConfig]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """A failing test must not leave torch deterministic for the others."""
    yield
    torch.use_deterministic_algorithms(False)


def state() -> tuple[bool, bool]:
    return (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )


@pytest.mark.parametrize("before", [(False, False), (True, False), (True, True)])
def test_it_is_switched_on_and_put_back(before: tuple[bool, bool]) -> None:
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])
    with deterministic_algorithms(True):
        assert state() == (True, False)
    assert state() == before
    with pytest.raises(ZeroDivisionError), deterministic_algorithms(True):
        raise ZeroDivisionError
    assert state() == before
    with deterministic_algorithms(False):
        assert state() == before


def test_an_operation_without_such_a_version_is_named() -> None:
    x = torch.zeros(4, dtype=torch.int64)
    with (
        pytest.raises(
            ValueError, match=r"^deterministic: put_ has no deterministic version on cpu"
        ),
        deterministic_algorithms(True),
    ):
        x.put_(torch.tensor([0, 0]), torch.tensor([1, 2]))  # which one stays is open
    with pytest.raises(RuntimeError, match="something else"), deterministic_algorithms(True):
        raise RuntimeError("something else")


def test_cublas_has_to_be_told_first(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (None, ":4096:2"):
        monkeypatch.delenv(CUBLAS_VARIABLE, raising=False)
        if value is not None:
            monkeypatch.setenv(CUBLAS_VARIABLE, value)
        with pytest.raises(
            ValueError, match=f"^deterministic: .*{CUBLAS_VARIABLE}.*:4096:8, :16:8"
        ):
            check_determinism("cuda")
        check_determinism("cpu")
    monkeypatch.setenv(CUBLAS_VARIABLE, ":4096:8")
    check_determinism("cuda")


@pytest.mark.parametrize("backend", ["fla", "triton"])
def test_kernels_that_tune_themselves_are_refused(make_config: MakeConfig, backend: str) -> None:
    model = LoopedConfig(backend=backend)
    assert make_config(model=model).model.backend == backend
    with pytest.raises(ValidationError, match=f"deterministic: .*backend='{backend}'"):
        make_config(model=model, deterministic=True)


@pytest.mark.parametrize("name", ["fla", "triton"])
def test_auto_leaves_them_out(name: str) -> None:
    tuned, plain = (Backend(each, load=lambda: None, merit="") for each in (name, "chunked"))
    registry = Registry("an op", (tuned, plain))
    assert registry.choose(None).backend is tuned
    with deterministic_algorithms(True):
        choice = registry.choose(None)
    assert choice.backend is plain
    assert "may add in other orders" in dict(choice.passed_over)[name]


def test_the_same_seed_gives_the_same_bytes(make_config: MakeConfig, tmp_path: Path) -> None:
    metrics = []
    for name in ("one", "two"):
        run_curriculum(make_config(deterministic=True, step_budget=40), tmp_path / name)
        assert state() == (False, False)
        metrics.append((tmp_path / name / "metrics.jsonl").read_bytes())
    assert metrics[0] == metrics[1]
    run_curriculum(make_config(deterministic=True, step_budget=40, seed=1), tmp_path / "other")
    assert (tmp_path / "other" / "metrics.jsonl").read_bytes() != metrics[0]


def test_the_run_is_deterministic_while_it_computes(
    make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    forward = torch.nn.Embedding.forward

    def watched(self: torch.nn.Embedding, tokens: torch.Tensor) -> torch.Tensor:
        seen.append(torch.are_deterministic_algorithms_enabled())
        return forward(self, tokens)

    monkeypatch.setattr(torch.nn.Embedding, "forward", watched)
    rates = {"learning_rates": (1e-2, 3e-3), "selection_steps": 2, "step_budget": 20}
    run_curriculum(make_config(deterministic=True, **rates), tmp_path / "run")
    assert seen
    assert all(seen)


@pytest.mark.gpu
@pytest.mark.parametrize("pattern", ["gdn", "kda", "mamba2", "full", "window"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_same_bytes_on_a_gpu(
    make_config: MakeConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    pattern: str,
    dtype: str,
) -> None:
    monkeypatch.setenv(CUBLAS_VARIABLE, ":4096:8")
    model = LoopedConfig(pattern=pattern, width=16, num_layers=1, num_heads=2, num_loops=2)
    config = make_config(
        model=model, device="cuda", dtype=dtype, deterministic=True, step_budget=20
    )
    metrics = []
    for name in ("one", "two"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            run_curriculum(config, tmp_path / name)
        metrics.append((tmp_path / name / "metrics.jsonl").read_bytes())
    assert metrics[0] == metrics[1]
