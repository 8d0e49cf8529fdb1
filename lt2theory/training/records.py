"""What a finished curriculum run says."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ValidationError

from lt2theory.cards import card, listing
from lt2theory.fields import KnownFields, first_refusal
from lt2theory.training.evaluation import Curves, Evaluation

Checked = TypeVar("Checked", bound=BaseModel)
Status = Literal["solved", "budget_exhausted", "diverged"]


class StageRecord(KnownFields, frozen=True):
    """How one stage went.

    Attributes:
        stage: The stage.
        steps: Steps spent on it; if it was solved, the steps to solve it.
        solved: Whether it was solved.
        evaluation: The last evaluation; None if the run diverged before the first.
        confirmation: The last confirmation; None if no evaluation passed.
        confirmations: How often a passed evaluation was put to confirmation.
        confirmed_on_others: Whether the last confirmation shared no instance with its evaluation;
            False only where the split is too small for that.
    """

    stage: int
    steps: int
    solved: bool
    evaluation: Evaluation | None
    confirmation: Evaluation | None
    confirmations: int
    confirmed_on_others: bool | None


class StageTest(KnownFields, frozen=True):
    """The one reading of a stage's test split.

    Attributes:
        stage: The stage.
        length: Tokens an instance.
        trained: Whether the run trained on this stage; else it is only tested.
        evaluation: Accuracies with intervals.
        floors: Accuracies at the scored positions that need no learning, by name.
        curves: Accuracy along the sequence.
    """

    stage: int
    length: int
    trained: bool
    evaluation: Evaluation
    floors: dict[str, float]
    curves: Curves


class Candidate(KnownFields, frozen=True):
    """One trial of a learning rate.

    Attributes:
        learning_rate: The rate.
        seed: Seed of its weights and training batches.
        steps: Steps trained.
        diverged: Whether loss or gradient stopped being finite.
        evaluation: Its score on the evaluation split; None if it diverged.
    """

    learning_rate: float
    seed: int
    steps: int
    diverged: bool
    evaluation: Evaluation | None


class Timing(KnownFields, frozen=True):
    """Wall-clock numbers; they are no part of what a resumed run reproduces.

    Attributes:
        seconds: All sessions together, tests included, the learning-rate choice not.
        training_seconds: Spent in training steps.
        samples_per_second: Training examples a second of `training_seconds`.
    """

    seconds: float
    training_seconds: float
    samples_per_second: float


class CurriculumSummary(KnownFields, frozen=True):
    """What a finished run says; the contents of summary.json.

    Attributes:
        status: `solved` (every stage), `budget_exhausted` (a stage was not solved within its
            budget) or `diverged` (loss or gradient stopped being finite; such a run is not tested).
        label: Name of the arm.
        seed: Seed of weights and data.
        config_hash: Hash of the configuration.
        task: The task's card: definition, knobs, supervision, layout.
        parameters: Number of trained numbers.
        learning_rate: The peak learning rate that was used.
        candidates: The learning rates that were tried before, if any.
        steps: Optimiser steps of the curriculum.
        stages: The stages that were trained.
        test: The tests of the trained stages and of the test stages.
        diverged_at: The step, from 1, that diverged.
        divergence: What was not finite.
        timing: Wall-clock numbers.
    """

    status: Status
    label: str
    seed: int
    config_hash: str
    task: dict[str, Any]
    parameters: int
    learning_rate: float
    candidates: tuple[Candidate, ...]
    steps: int
    stages: tuple[StageRecord, ...]
    test: tuple[StageTest, ...]
    diverged_at: int | None
    divergence: str | None
    timing: Timing

    def _repr_html_(self) -> str:
        """What a notebook shows: the outcome, and every test beside its best floor."""
        facts = {
            "status": self.status,
            "task": self.task.get("task", ""),
            "seed": self.seed,
            "steps": self.steps,
            "parameters": self.parameters,
        }
        tests = [
            (
                one.stage,
                "trained" if one.trained else "only tested",
                one.evaluation.scored_accuracy,
                f"[{one.evaluation.scored_interval.low:.4f}, "
                f"{one.evaluation.scored_interval.high:.4f}]",
                max(one.floors.values(), default=float("nan")),
            )
            for one in self.test
        ]
        columns = ("stage", "", "accuracy (test)", "95 % interval", "best floor")
        return card(f"Run {self.label}", facts) + listing("Tests", columns, tests)


class Candidates(KnownFields, frozen=True):
    """The contents of selection.json.

    Attributes:
        candidates: The trials done so far.
    """

    candidates: tuple[Candidate, ...]


def checked(kind: type[Checked], value: Mapping[str, Any], path: Path) -> Checked:
    """Read a record out of a file that somebody may have damaged.

    Args:
        kind: What the file should hold.
        value: What it holds.
        path: The file, for the message.

    Returns:
        The record.

    Raises:
        ValueError: The file holds something else; the message names it and the first such field.
    """
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise ValueError(f"{path} is damaged: {first_refusal(error, kind.__name__)}") from error
