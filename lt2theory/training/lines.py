"""The lines of a curriculum run's metrics.jsonl, in the form that `lt2theory.runs.tables` reads."""

from typing import Any

from lt2theory.training.evaluation import Evaluation
from lt2theory.training.records import Candidate, StageRecord, StageTest, Status
from lt2theory.training.train_state import TrainState


def evaluation_line(evaluation: Evaluation, *, split: str, stage: int, step: int) -> dict[str, Any]:
    """Accuracies, losses and intervals of an evaluation.

    Args:
        evaluation: The evaluation.
        split: "eval", "confirmation" or "test".
        stage: The stage.
        step: Steps done, over all stages.

    Returns:
        The record.
    """
    metrics = {
        "scored_accuracy": evaluation.scored_accuracy,
        "sequence_accuracy": evaluation.sequence_accuracy,
        "token_accuracy": evaluation.token_accuracy,
        "loss": evaluation.loss,
        "scored_loss": evaluation.scored_loss,
    }
    scored, sequence = evaluation.scored_interval, evaluation.sequence_interval
    return {
        "split": split,
        "stage": stage,
        "step": step,
        "n": evaluation.n,
        "metrics": {name: value for name, value in metrics.items() if value is not None},
        "intervals": {
            "scored_accuracy": [scored.low, scored.high],
            "sequence_accuracy": [sequence.low, sequence.high],
        },
    }


def training_line(state: TrainState, stage: int, rate: float) -> dict[str, Any]:
    """Means over the steps since the last such record; `<name>_loss` for every auxiliary loss.

    Args:
        state: Where the run is.
        stage: The stage.
        rate: Learning rate of the last step.

    Returns:
        The record.
    """
    metrics = {
        "loss": state.loss_sum / state.summed,
        "gradient_norm": state.norm_sum / state.summed,
        "learning_rate": rate,
    }
    metrics |= {f"{name}_loss": x / state.summed for name, x in state.auxiliary_sums.items()}
    return {"split": "train", "stage": stage, "step": state.step, "metrics": metrics}


def examination_lines(test: StageTest, *, step: int) -> list[dict[str, Any]]:
    """What the one reading of a stage's test split gave, and the floors beside it.

    Args:
        test: The test.
        step: Steps done, over all stages.

    Returns:
        Three records: floors, accuracies, curves.
    """
    curves = {
        "position_accuracy": list(test.curves.position_accuracy),
        "exact_prefix_accuracy": list(test.curves.exact_prefix_accuracy),
    }
    along = {"n": test.evaluation.n, "positions": list(test.curves.positions), "curves": curves}
    return [
        {"split": "floor", "stage": test.stage, "metrics": test.floors},
        evaluation_line(test.evaluation, split="test", stage=test.stage, step=step),
        {"split": "test", "stage": test.stage, "step": step, **along},
    ]


def outcome_line(
    status: Status, *, step: int, solved_stages: int, parameters: int
) -> dict[str, Any]:
    """Facts of the whole run.

    Args:
        status: How it ended.
        step: Steps done, over all stages.
        solved_stages: How many stages were solved.
        parameters: Number of trained numbers.

    Returns:
        The record.
    """
    names: tuple[Status, ...] = ("solved", "budget_exhausted", "diverged")
    metrics = {"steps": step, "solved_stages": solved_stages, "parameters": parameters}
    metrics |= {name: int(status == name) for name in names}
    return {"split": "run", "step": step, "metrics": metrics}


def stage_line(record: StageRecord, *, step: int) -> dict[str, Any]:
    """How a stage ended.

    Args:
        record: The stage.
        step: Steps done, over all stages.

    Returns:
        The record; `steps_to_solve` is there if the stage was solved.
    """
    metrics = {"solved": int(record.solved), "steps": record.steps}
    if record.solved:
        metrics["steps_to_solve"] = record.steps
    return {"split": "stage", "stage": record.stage, "step": step, "metrics": metrics}


def candidate_line(trial: Candidate, *, stage: int) -> dict[str, Any]:
    """One trial of a learning rate.

    Args:
        trial: The trial.
        stage: The stage it was tried on.

    Returns:
        The record; accuracy and loss are there unless it diverged.
    """
    metrics: dict[str, float] = {
        "learning_rate": trial.learning_rate,
        "candidate_seed": trial.seed,
        "diverged": int(trial.diverged),
    }
    record: dict[str, Any] = {"split": "selection", "stage": stage, "step": 0, "metrics": metrics}
    if trial.evaluation is not None:
        scored = trial.evaluation.scored_interval
        metrics["scored_accuracy"] = trial.evaluation.scored_accuracy
        record["intervals"] = {"scored_accuracy": [scored.low, scored.high]}
        record["n"] = trial.evaluation.n
    return record
