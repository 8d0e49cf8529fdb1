"""Tables of runs that never ran, and small runs that did."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import pytest
import torch

from lt2theory.experiments.question import Evidence
from lt2theory.runs import COLUMNS
from lt2theory.training import CurriculumConfig, run_curriculum, wilson

TINY = {
    "step_budget": 1,
    "min_steps": 0,
    "evaluate_every": 1,
    "evaluation_size": 64,
    "confirmation_size": 64,
    "test_size": 64,
    "batch_size": 4,
}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def fixed_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit made while the tests run must not look like a change of environment."""
    monkeypatch.setattr("lt2theory.runs.environment.source_revision", lambda: "revision")


@pytest.fixture(autouse=True)
def no_figure_left() -> Iterator[None]:
    yield
    assert not plt.get_fignums()


@dataclass(frozen=True)
class Outcome:
    """How one run went: `stages` it trained (stage -> solved), `tests` (stage -> accuracy)."""

    label: str
    seed: int
    stages: Mapping[int, bool] = field(default_factory=dict)
    tests: Mapping[int, float] = field(default_factory=dict)
    diverged: bool = False
    n: int = 4096

    def rows(self, floors: Mapping[int, Mapping[str, float]]) -> list[dict[str, Any]]:
        """Rows of the tidy table."""
        solved = bool(self.stages) and all(self.stages.values()) and not self.diverged
        rows: list[dict[str, Any]] = []
        step = 0
        for stage, passed in self.stages.items():
            step += 100
            score = {"value": 0.95 if passed else 0.5, "low": 0.4, "high": 0.97, "n": 1024}
            here = {"stage": stage, "step": step}
            rows += [
                {**here, "split": "train", "metric": "loss", "value": 0.7},
                {**here, "split": "eval", "metric": "scored_accuracy", **score},
                {**here, "split": "stage", "metric": "steps", "value": 100},
                {**here, "split": "stage", "metric": "solved", "value": int(passed)},
            ]
        for stage, value in self.tests.items():
            interval = wilson(float(value), self.n)
            ends = {"low": interval.low, "high": interval.high, "n": self.n}
            here = {"stage": stage, "step": step, "split": "test"}
            rows.append({**here, "metric": "scored_accuracy", "value": value, **ends})
            rows += [
                {"stage": stage, "split": "floor", "metric": name, "value": floor}
                for name, floor in floors.get(stage, {"uniform": 0.5}).items()
            ]
        facts = {"solved": int(solved), "diverged": int(self.diverged), "steps": step}
        rows += [
            {"split": "run", "step": step, "metric": name, "value": value}
            for name, value in facts.items()
        ]
        name = f"{self.label}-seed{self.seed}"
        identity = {"run": name, "config_hash": "0", "label": self.label, "seed": self.seed}
        return [{**identity, "task": "task", **row} for row in rows]


MakeEvidence = Callable[..., Evidence]


@pytest.fixture
def outcome() -> type[Outcome]:
    return Outcome


@pytest.fixture
def make_evidence() -> MakeEvidence:
    """Evidence of runs that never ran: their table, and folders that do not exist."""

    def make(
        runs: Sequence[Outcome], floors: Mapping[int, Mapping[str, float]] | None = None
    ) -> Evidence:
        rows = [row for run in runs for row in run.rows(floors or {})]
        table = pd.DataFrame(rows, columns=list(COLUMNS))
        table = table.astype({name: dtype for name, (dtype, _) in COLUMNS.items()})
        folders = {(run.label, run.seed): Path("absent", f"{run.label}{run.seed}") for run in runs}
        return Evidence(table, folders, {})

    return make


@pytest.fixture
def tiny() -> Callable[[CurriculumConfig], CurriculumConfig]:
    """The same run with next to no budget."""

    def shorten(config: CurriculumConfig) -> CurriculumConfig:
        return CurriculumConfig.model_validate(config.model_dump() | TINY)

    return shorten


@pytest.fixture
def saved_run(tmp_path: Path, tiny: Any) -> Callable[[CurriculumConfig], Path]:
    """Folder of a run that took a single step."""

    def save(config: CurriculumConfig) -> Path:
        run_curriculum(tiny(config), tmp_path / "run")
        return tmp_path / "run"

    return save
