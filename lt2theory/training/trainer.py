"""The loop of one curriculum run: steps, evaluations, promotions, checkpoints."""

import time
import warnings
from collections.abc import Mapping

from lt2theory.runs import Progress, ProgressEvent, RunFolder
from lt2theory.training.checkpoint import pack, unpack
from lt2theory.training.config import CurriculumConfig
from lt2theory.training.draws import confirmation_batch, evaluation_batch
from lt2theory.training.evaluation import evaluate
from lt2theory.training.lines import evaluation_line, stage_line, training_line
from lt2theory.training.optimiser import DivergenceError, learning_rate_factor
from lt2theory.training.runtime import Runtime
from lt2theory.training.seat import Seat
from lt2theory.training.selection import new_model
from lt2theory.training.stepper import make_stepper
from lt2theory.training.train_state import TrainState

CONFIRMATION_SLACK = 0.01
"""How far below the pass mark the lower end of a confirmation's interval may lie."""


class CurriculumTrainer:
    """Trains on stage after stage.

    Args:
        config: A resolved configuration.
        run: Its folder, open for writing.
        runtime: Device and precision.
        rate: Peak learning rate.
        seat: Lends it batches, and is asked after every step whether to stop.
        progress: Told how far the run is.

    Attributes:
        task: The task.
        model: The model.
        state: Where the run is.
    """

    def __init__(
        self,
        config: CurriculumConfig,
        run: RunFolder,
        *,
        runtime: Runtime,
        rate: float,
        seat: Seat,
        progress: Progress | None = None,
    ) -> None:
        self.config = config
        self.run = run
        self.runtime = runtime
        self.rate = rate
        self.seat = seat
        self.stop = seat.stop
        self.progress = progress
        self.task = config.task.create()
        self.model = new_model(config, runtime)
        self.stepper = make_stepper(config, self.model, runtime)
        self.optimiser = self.stepper.optimiser
        self.state = TrainState()
        self._clock = time.perf_counter()

    def restore(self) -> None:
        """Go back to the newest checkpoint that can be read, or to the start if there is none.

        metrics.jsonl is cut back to it.

        Raises:
            ValueError: There are checkpoints, but none can be read.
        """
        checkpoints = self.run.checkpoints()
        for folder in checkpoints:
            try:
                self.state = unpack(folder, self.model, self.optimiser)
                break
            except ValueError as error:
                if folder == checkpoints[-1]:
                    raise
                warnings.warn(f"going back one checkpoint: {error}", stacklevel=2)
        self.run.cut_metrics(self.state.metrics_size)

    def train(self) -> None:
        """Take steps until every stage is solved, a budget is spent, or the run diverges.

        Raises:
            Interrupted: A signal came; a checkpoint of the last step has been written.
        """
        while self.state.outcome is None:
            ended = self._step(self.config.stages[len(self.state.finished)])
            if self.stepper.pending:
                continue  # the state stands where the last results were read
            due = self.state.step % self.config.checkpoint_every == 0
            if ended or due or self.stop.requested:
                self.save()
            self.stop.check()

    def save(self) -> None:
        """Write a checkpoint of the present state."""
        self.add_time()
        self.state.metrics_size = self.run.metrics_size()
        files = pack(self.model, self.optimiser, self.state)
        self.run.save_checkpoint(self.state.step, files)

    def add_time(self) -> None:
        """Add the time since the last call to the state's."""
        now = time.perf_counter()
        self.state.seconds += now - self._clock
        self._clock = now

    def _step(self, stage: int) -> bool:
        # One step and what is due after it; true if the stage, or the run, ended with it.
        config, state = self.config, self.state
        ahead = self.stepper.pending
        factor = learning_rate_factor(
            config.optimiser, state.stage_step + ahead, config.step_budget
        )
        began = time.perf_counter()
        try:
            batch = self.seat.batch(self.task, config, stage, state.step + ahead)
            self.stepper.take(batch, self.rate * factor)
            results = self.stepper.results() if self._must_read() else ()
            for result in results:
                state.add_step(result.loss, result.gradient_norm, result.auxiliary)
        except DivergenceError as error:
            return self._diverge(stage, state.step + 1, str(error))
        state.training_seconds += time.perf_counter() - began
        if self.stepper.pending:
            return False
        last = state.stage_step == config.step_budget
        if last or state.stage_step % config.evaluate_every == 0:
            self.run.append_metrics(training_line(state, stage, self.rate * factor))
            state.reset_means()
            return self._evaluate(stage, last=last)
        if self._shows(state.stage_step):
            self._show(stage, state.stage_step, {"loss": result.loss})
        return False

    def _shows(self, stage_step: int) -> bool:
        every = max(self.config.evaluate_every // 10, 1)
        return self.progress is not None and stage_step % every == 0

    def _must_read(self) -> bool:
        """Whether something is due after the last step that needs to know what it saw."""
        config, pending = self.config, self.stepper.pending
        stage_step = self.state.stage_step + pending
        return (
            pending >= self.stepper.longest_wait
            or self.stop.requested
            or stage_step == config.step_budget
            or stage_step % config.evaluate_every == 0
            or self._shows(stage_step)
            or (self.state.step + pending) % config.checkpoint_every == 0
        )

    def _evaluate(self, stage: int, *, last: bool) -> bool:
        config, state = self.config, self.state
        self._note_time()
        batch = evaluation_batch(self.task, config, stage, state.step)
        evaluation, _ = evaluate(self.stepper.answering, self.task, batch, self.runtime)
        state.evaluation = evaluation
        self.run.append_metrics(
            evaluation_line(evaluation, split="eval", stage=stage, step=state.step)
        )
        if evaluation.loss is None:
            return self._diverge(stage, state.step, "the evaluation's loss is not finite")
        notes = {"loss": evaluation.loss, "accuracy": evaluation.scored_accuracy}
        passed = evaluation.scored_accuracy >= config.pass_mark
        solved = passed and state.stage_step >= config.min_steps and self._confirm(stage)
        ended = solved or last
        self._show(stage, state.stage_step, notes, final=ended)
        if ended:
            self._close(stage, solved=solved)
            if not solved:
                state.outcome = "budget_exhausted"
            elif len(state.finished) == len(config.stages):
                state.outcome = "solved"
        return ended

    def _confirm(self, stage: int) -> bool:
        state = self.state
        batch, others = confirmation_batch(self.task, self.config, stage, state.step)
        confirmation, _ = evaluate(self.stepper.answering, self.task, batch, self.runtime)
        state.confirmation = confirmation
        state.confirmed_on_others = others
        state.confirmations += 1
        self.run.append_metrics(
            evaluation_line(confirmation, split="confirmation", stage=stage, step=state.step)
        )
        return confirmation.scored_interval.low >= self.config.pass_mark - CONFIRMATION_SLACK

    def _diverge(self, stage: int, step: int, reason: str) -> bool:
        self.state.outcome = "diverged"
        self.state.diverged_at = step
        self.state.divergence = reason
        self._show(stage, self.state.stage_step, {"status": "diverged"}, final=True)
        self._close(stage, solved=False)
        return True

    def _close(self, stage: int, *, solved: bool) -> None:
        ended = self.state.close_stage(stage, solved=solved)
        self.run.append_metrics(stage_line(ended, step=self.state.step))

    def _note_time(self) -> None:
        self.add_time()
        state = self.state
        samples = state.step * self.config.batch_size
        self.run.append_timing(
            {
                "step": state.step,
                "seconds": state.seconds,
                "training_seconds": state.training_seconds,
                "samples_per_second": samples / state.training_seconds,
            }
        )

    def _show(
        self, stage: int, done: int, notes: Mapping[str, float | str], *, final: bool = False
    ) -> None:
        if self.progress is not None:
            config = self.config
            name = f"{config.label} seed {config.seed}: {config.task.name} {stage}"
            self.progress(ProgressEvent(name, done, config.step_budget, notes=notes, final=final))
