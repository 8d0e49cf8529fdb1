"""Choosing a learning rate: the same steps and seeds for each, and the test split unseen.

Seeds of a choice differ from the seeds of the runs that use it, so that no run is better off for
having been chosen on.
"""

from collections.abc import Callable, Iterable, Sequence

import torch

from lt2theory.models import LoopedModel
from lt2theory.training.config import CurriculumConfig, resolve
from lt2theory.training.draws import evaluation_batch, training_batch
from lt2theory.training.evaluation import evaluate
from lt2theory.training.exact_start import solve
from lt2theory.training.optimiser import DivergenceError, learning_rate_factor
from lt2theory.training.records import Candidate
from lt2theory.training.runtime import Runtime
from lt2theory.training.signals import StopRequest
from lt2theory.training.stepper import make_stepper

SEED_OFFSET = 1_000_000
"""Added to the run's seed, once for each further selection seed."""


def new_model(config: CurriculumConfig, runtime: Runtime) -> LoopedModel:
    """A model with starting weights: drawn from the seed, or the solution that `start` names.

    Args:
        config: A resolved configuration.
        runtime: Where it is put.

    Returns:
        The model, in float32.
    """
    generator = torch.Generator().manual_seed(config.seed)
    model = LoopedModel(config.model, generator=generator)
    if config.start == "s3_rescan":
        solve(model)
    return model.to(runtime.device)


def select_learning_rate(
    config: CurriculumConfig,
    *,
    tried: Sequence[Candidate] = (),
    on_candidate: Callable[[Candidate], None] | None = None,
    stop: StopRequest | None = None,
) -> tuple[float, tuple[Candidate, ...]]:
    """Try every candidate of `config.learning_rates` and choose the best.

    Args:
        config: The configuration; its first stage, selection_steps and selection_seeds are used.
        tried: Candidates that were tried before, which are not tried again.
        on_candidate: Told of every new trial.
        stop: Asked between steps.

    Returns:
        The chosen rate and all trials. Without candidates: the optimiser's own rate and none.
    """
    config = resolve(config)
    runtime = Runtime.of(config.device, config.dtype)
    done = {(trial.learning_rate, trial.seed): trial for trial in tried}
    for k in range(config.selection_seeds):
        seed = config.seed + (k + 1) * SEED_OFFSET
        for rate in config.learning_rates:
            if (rate, seed) not in done:
                trial = try_candidate(config, rate, seed, runtime, stop or StopRequest())
                done[rate, seed] = trial
                if on_candidate is not None:
                    on_candidate(trial)
    trials = tuple(done.values())
    return best_rate(trials, config.optimiser.learning_rate), trials


def try_candidate(
    config: CurriculumConfig, rate: float, seed: int, runtime: Runtime, stop: StopRequest
) -> Candidate:
    """Train one candidate on the first stage and score it on the evaluation split.

    The schedule runs its whole course over `selection_steps`.

    Args:
        config: A resolved configuration.
        rate: Peak learning rate.
        seed: Seed of weights and batches.
        runtime: Device and precision.
        stop: Asked between steps.

    Returns:
        The trial.
    """
    config = config.model_copy(update={"seed": seed})
    task, stage, steps = config.task.create(), config.stages[0], config.selection_steps
    model = new_model(config, runtime)
    stepper, done = make_stepper(config, model, runtime), 0
    try:
        for step in range(steps):
            stop.check()
            factor = learning_rate_factor(config.optimiser, step, steps)
            stepper.take(training_batch(task, config, stage, step), rate * factor)
            if stepper.pending >= stepper.longest_wait or step == steps - 1:
                for _ in stepper.results():
                    done += 1  # one by one: those before a divergence count
    except DivergenceError:
        return Candidate(learning_rate=rate, seed=seed, steps=done, diverged=True, evaluation=None)
    batch = evaluation_batch(task, config, stage, steps)
    evaluation, _ = evaluate(model, task, batch, runtime)
    return Candidate(
        learning_rate=rate,
        seed=seed,
        steps=steps,
        diverged=evaluation.loss is None,
        evaluation=None if evaluation.loss is None else evaluation,
    )


def best_rate(trials: Iterable[Candidate], default: float) -> float:
    """The rate with the highest mean scored accuracy over its seeds.

    Ties go to the lower mean scored loss, then to the smaller rate. A rate that diverged on any
    seed comes after all that did not.

    Args:
        trials: The trials.
        default: What is returned without trials.

    Returns:
        A learning rate.
    """
    by_rate: dict[float, list[Candidate]] = {}
    for trial in trials:
        by_rate.setdefault(trial.learning_rate, []).append(trial)

    def merit(rate: float) -> tuple[bool, float, float, float]:
        scores = [trial.evaluation for trial in by_rate[rate] if trial.evaluation is not None]
        stable = len(scores) == len(by_rate[rate])
        if not scores:
            return False, 0.0, 0.0, -rate
        accuracy = sum(score.scored_accuracy for score in scores) / len(scores)
        loss = sum(score.scored_loss or 0.0 for score in scores) / len(scores)
        return stable, accuracy, -loss, -rate

    return max(by_rate, key=merit) if by_rate else default
