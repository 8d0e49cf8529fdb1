"""The rules of promotion, with scripted scores."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lt2theory.runs import ProgressEvent
from lt2theory.training import CurriculumSummary, Curves, Evaluation, run_curriculum, wilson
from lt2theory.training.evaluation import evaluate
from lt2theory.training.optimiser import DivergenceError, StepResult


def score(accuracy: float, n: int, loss: float | None = 1.0) -> Evaluation:
    interval = wilson(accuracy, n)
    return Evaluation(
        n=n,
        scored_accuracy=accuracy,
        scored_interval=interval,
        sequence_accuracy=accuracy,
        sequence_interval=interval,
        token_accuracy=accuracy,
        loss=loss,
        scored_loss=loss,
    )


@pytest.fixture
def scripted(tmp_path: Path, make_config: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run one stage whose training does nothing and whose scores are given."""

    def run(scores: list[float | None], progress: Any = None, **changes: Any) -> CurriculumSummary:
        fields: dict[str, Any] = {
            "stages": (16,),
            "test_stages": (),
            "pass_mark": 0.9,
            "evaluation_size": 100,
            "confirmation_size": 400,
        }
        config = make_config(**fields | changes)
        given: Iterator[float | None] = iter(scores)

        def answer(model: Any, task: Any, batch: Any, runtime: Any) -> tuple[Evaluation, Curves]:
            accuracy = next(given)
            curves = Curves(positions=(), position_accuracy=(), exact_prefix_accuracy=())
            n = len(batch.inputs)
            return (score(0.0, n, None) if accuracy is None else score(accuracy, n)), curves

        monkeypatch.setattr("lt2theory.training.trainer.evaluate", answer)
        monkeypatch.setattr(
            "lt2theory.training.stepper.train_step", lambda *_, **__: StepResult(0.5, 1.0)
        )
        summary = run_curriculum(config, tmp_path / "run", progress=progress)
        assert list(given) == []
        return summary

    return run


def test_a_passed_and_confirmed_stage_is_solved(scripted: Any) -> None:
    summary = scripted([0.89, 0.90, 0.95])
    (stage,) = summary.stages
    assert summary.status == "solved"
    assert (stage.solved, stage.steps, stage.confirmations) == (True, 40, 1)
    assert (stage.evaluation.n, stage.confirmation.n) == (100, 400)
    assert stage.confirmed_on_others


def test_a_failed_confirmation_trains_on(scripted: Any) -> None:
    summary = scripted([1.0, 0.90, 1.0, 0.99])
    (stage,) = summary.stages
    assert (stage.solved, stage.steps, stage.confirmations) == (True, 40, 2)


def test_a_confirmation_needs_its_lower_end_near_the_mark(scripted: Any) -> None:
    """367 of 400 has a Wilson interval from 0.8861, and 369 of 400 one from 0.8921."""
    assert wilson(367 / 400, 400).low < 0.89 < wilson(369 / 400, 400).low
    summary = scripted([1.0, 367 / 400, 1.0, 369 / 400])
    assert [stage.steps for stage in summary.stages] == [40]


def test_a_spent_budget_ends_the_run_and_is_still_tested(scripted: Any) -> None:
    summary = scripted([0.5, 0.6, 1.0, 0.7], stages=(14, 16), test_stages=(20,))
    (stage,) = summary.stages
    assert summary.status == "budget_exhausted"
    assert (stage.stage, stage.solved, stage.steps, stage.confirmations) == (14, False, 60, 1)
    assert [(test.stage, test.trained) for test in summary.test] == [(14, True), (20, False)]


def test_budgets_that_are_no_multiple_are_evaluated_at_their_end(scripted: Any) -> None:
    summary = scripted([0.5, 1.0, 1.0], step_budget=33)
    assert [(stage.solved, stage.steps) for stage in summary.stages] == [(True, 33)]


def test_a_stage_is_not_solved_before_its_least_steps(scripted: Any) -> None:
    summary = scripted([1.0, 1.0, 1.0], min_steps=35)
    assert [stage.steps for stage in summary.stages] == [40]


def test_every_stage_has_a_budget_of_its_own(scripted: Any) -> None:
    summary = scripted([0.5, 0.5, 1.0, 1.0, 0.5, 1.0, 1.0], stages=(14, 16))
    assert summary.status == "solved"
    assert [(stage.stage, stage.steps) for stage in summary.stages] == [(14, 60), (16, 40)]
    assert summary.steps == 100


def test_a_loss_of_the_evaluation_that_is_not_finite_is_divergence(scripted: Any) -> None:
    summary = scripted([0.5, None])
    assert (summary.status, summary.diverged_at) == ("diverged", 40)
    assert summary.divergence == "the evaluation's loss is not finite"
    assert summary.test == ()


def test_progress_ends_every_stage_once(scripted: Any) -> None:
    events: list[ProgressEvent] = []
    scripted([0.5, 1.0, 1.0, 1.0, 1.0], progress=events.append, stages=(14, 16))
    names = list(dict.fromkeys(event.task for event in events))
    assert names == ["small seed 0: parity 14", "small seed 0: parity 16"]
    assert [event.done for event in events if event.final] == [40, 20]
    assert all(event.total == 60 for event in events)


def test_a_diverging_step_is_recorded_with_its_number(
    tmp_path: Path, make_config: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = []

    def step(*_: Any, **__: Any) -> StepResult:
        count.append(1)
        if len(count) == 7:
            raise DivergenceError("the loss is nan")
        return StepResult(0.5, 1.0)

    monkeypatch.setattr("lt2theory.training.stepper.train_step", step)
    summary = run_curriculum(make_config(), tmp_path / "run")
    assert (summary.status, summary.diverged_at, summary.steps) == ("diverged", 7, 6)
    assert summary.divergence == "the loss is nan"
    assert summary.stages[0].evaluation is None
    assert run_curriculum(make_config(), tmp_path / "run") == summary


def test_the_script_stands_in_for_the_real_evaluation() -> None:
    from lt2theory.training import trainer

    assert trainer.evaluate is evaluate
