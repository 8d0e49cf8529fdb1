"""Small configurations that train in a second."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from lt2theory.models import LoopedConfig
from lt2theory.training import CurriculumConfig, OptimiserConfig, TaskConfig, load_summary

MakeConfig = Callable[..., CurriculumConfig]


@pytest.fixture(autouse=True)
def one_thread() -> Any:
    """Small tensors gain nothing from threads, and tests share the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def fixed_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit made while the tests run must not look like a change of environment."""
    monkeypatch.setattr("lt2theory.runs.environment.source_revision", lambda: "revision")


@pytest.fixture
def small_model() -> LoopedConfig:
    """A model that solves parity in some fifty steps."""
    return LoopedConfig(
        width=16,
        num_layers=1,
        num_heads=2,
        negative_eigenvalues=True,
        conv_width=0,
        pattern="gdn",
        backend="reference",
    )


@pytest.fixture
def make_config(small_model: LoopedConfig) -> MakeConfig:
    def make(**changes: Any) -> CurriculumConfig:
        fields: dict[str, Any] = {
            "task": TaskConfig(name="parity"),
            "model": small_model,
            "optimiser": OptimiserConfig(learning_rate=1e-2, warmup_steps=5),
            "stages": (12, 16),
            "test_stages": (20,),
            "batch_size": 16,
            "step_budget": 60,
            "evaluate_every": 20,
            "checkpoint_every": 15,
            "evaluation_size": 64,
            "confirmation_size": 128,
            "test_size": 64,
            "pass_mark": 0.5,
            "label": "small",
        }
        return CurriculumConfig(**fields | changes)

    return make


@pytest.fixture
def results() -> Callable[[Path], tuple[bytes, dict[str, Any]]]:
    """What a run must reproduce: metrics.jsonl to the byte, and its summary but for the times."""

    def read(folder: Path) -> tuple[bytes, dict[str, Any]]:
        summary = load_summary(folder).model_dump()
        summary.pop("timing")
        return (folder / "metrics.jsonl").read_bytes(), summary

    return read
