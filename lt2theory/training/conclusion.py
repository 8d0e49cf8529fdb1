"""The end of a curriculum run: the one reading of the test split, and the summary."""

from collections.abc import Sequence

from lt2theory.training.draws import held_out_batch
from lt2theory.training.evaluation import evaluate
from lt2theory.training.lines import examination_lines, outcome_line
from lt2theory.training.records import Candidate, CurriculumSummary, StageTest, Timing
from lt2theory.training.trainer import CurriculumTrainer


def conclude(trainer: CurriculumTrainer, candidates: Sequence[Candidate]) -> CurriculumSummary:
    """Test a trained model and sum up its run.

    Args:
        trainer: A trainer whose training has ended; its run's metrics.jsonl gets the last records.
        candidates: The learning rates that were tried.

    Returns:
        The summary.

    Raises:
        Interrupted: A signal came between two tests; a continued run tests anew.
    """
    state, config = trainer.state, trainer.config
    assert state.outcome is not None
    tested = config.test and state.outcome != "diverged"
    tests = examine(trainer) if tested else ()
    parameters = sum(parameter.numel() for parameter in trainer.model.parameters())
    solved = sum(stage.solved for stage in state.finished)
    trainer.run.append_metrics(
        outcome_line(state.outcome, step=state.step, solved_stages=solved, parameters=parameters)
    )
    trainer.add_time()
    samples = state.step * config.batch_size
    return CurriculumSummary(
        status=state.outcome,
        label=config.label,
        seed=config.seed,
        config_hash=trainer.run.config_hash,
        task=trainer.task.card(),
        parameters=parameters,
        learning_rate=trainer.rate,
        candidates=tuple(candidates),
        steps=state.step,
        stages=tuple(state.finished),
        test=tests,
        diverged_at=state.diverged_at,
        divergence=state.divergence,
        timing=Timing(
            seconds=state.seconds,
            training_seconds=state.training_seconds,
            samples_per_second=samples / state.training_seconds if samples else 0.0,
        ),
    )


def examine(trainer: CurriculumTrainer) -> tuple[StageTest, ...]:
    """Read the test split once for every stage that was trained, and for the test stages.

    Args:
        trainer: A trainer whose training has ended.

    Returns:
        One test a stage.

    Raises:
        Interrupted: A signal came between two tests.
    """
    config, task, state = trainer.config, trainer.task, trainer.state
    trained = [stage.stage for stage in state.finished]
    tests = []
    for stage in dict.fromkeys([*trained, *config.test_stages]):
        trainer.stop.check()
        batch = held_out_batch(task, config, stage)
        evaluation, curves = evaluate(trainer.stepper.answering, task, batch, trainer.runtime)
        test = StageTest(
            stage=stage,
            length=task.sequence_length(stage),
            trained=stage in trained,
            evaluation=evaluation,
            floors=task.floors(stage),
            curves=curves,
        )
        for line in examination_lines(test, step=state.step):
            trainer.run.append_metrics(line)
        tests.append(test)
    return tuple(tests)
