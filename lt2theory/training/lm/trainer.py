"""The loop of one language-model run: steps, records, evaluations, checkpoints."""

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lt2theory.runs import Progress, ProgressEvent, RunFolder
from lt2theory.runs.layout import CHECKPOINTS
from lt2theory.training.lm.checkpoint import Checkpoints
from lt2theory.training.lm.config import LmConfig
from lt2theory.training.lm.graph_step import make_lm_stepper
from lt2theory.training.lm.held_out import HeldOut, evaluate, held_out_line
from lt2theory.training.lm.learner import Learner
from lt2theory.training.lm.options import Execution
from lt2theory.training.lm.policy import Verdict, judge
from lt2theory.training.lm.ranks import Ranks
from lt2theory.training.lm.records import LmState, LmSummary, event_line, summary_of, training_line
from lt2theory.training.lm.restoring import load_newest
from lt2theory.training.lm.schedule import rate_at
from lt2theory.training.lm.sinks import Sink
from lt2theory.training.lm.stability import stability_due, stability_lines
from lt2theory.training.lm.throughput import Throughput, peak_tflops
from lt2theory.training.signals import StopRequest
from lt2theory.training.text import Corpus, TextBatches, Windows


class LmTrainer:
    """Trains a language model; every process of a run has one, the first writes.

    Args:
        config: A resolved configuration.
        execution: How it is carried out.
        corpus: What is trained on.
        ranks: The processes.
        folder: The run's folder.
        run: The same, open for writing, in the first process; None in the others.
        learner: What is trained; None for a language model from the run's own draw.
        windows: What is read; None for the corpus's train split in a shuffled order.

    Attributes:
        state: Where the run is.
        stepper: Takes the steps.
        sinks: Where metrics go besides the folder; none but in the first process.
        progress: Told how far the run is; None likewise.
    """

    def __init__(
        self,
        config: LmConfig,
        execution: Execution,
        corpus: Corpus,
        *,
        ranks: Ranks,
        folder: Path,
        run: RunFolder | None,
        learner: Learner | None = None,
        windows: Windows | None = None,
    ) -> None:
        self.config = config
        self.ranks = ranks
        self.folder = folder
        self.run = run
        self.sinks: list[Sink] = []
        self.progress: Progress | None = None
        self._held_out = corpus.stream("eval") if config.evaluate_every else None
        self._batches = windows or TextBatches(
            corpus.stream("train"),
            length=config.sequence_length,
            batch_size=config.batch_size,
            seed=config.seed,
        )
        self.stepper = make_lm_stepper(config, execution, ranks, self._batches, learner)
        self.checkpoints = Checkpoints(
            folder / CHECKPOINTS,
            ranks,
            self.stepper.placement.model,
            self.stepper.optimisers,
            in_background=execution.async_checkpoints,
        )
        self.state = LmState()
        self._checkpoint_every = execution.checkpoint_every
        peak = peak_tflops(self.stepper.runtime, execution.peak_tflops)
        self._throughput = Throughput(config, ranks, peak)
        self._since = 0, 0.0  # steps and training seconds since the last rates
        self._clock = time.perf_counter()

    def restore(self) -> None:
        """Go back to the newest checkpoint that every process can read, or to the start.

        metrics.jsonl is cut back to it.

        Raises:
            ValueError: There are checkpoints, but none can be read.
        """
        mine = None if self.run is None else [str(path) for path in self.run.checkpoints()]
        folders = [Path(name) for name in self.ranks.from_first(mine)]
        if folders:
            placement = self.stepper.placement
            self.state = load_newest(folders, placement.model, self.stepper.optimisers, self.ranks)
        if self.run is not None:
            self.run.cut_metrics(self.state.metrics_size)

    def train(self, stop: StopRequest) -> None:
        """Take steps until the run has ended, with a checkpoint at its end.

        Args:
            stop: Asked before every step; a signal to one process stops all.

        Raises:
            Interrupted: A signal came; a checkpoint of the last step has been written.
        """
        if self.state.step >= self.config.total_steps:
            self.state.outcome = "finished"
        saved = self.state.step
        while self.state.outcome is None:
            if self._step(stop):
                if saved != self.state.step:
                    self.save()
                self.checkpoints.finish()
                stop.requested = True
                stop.check()
            self.checkpoints.poll()
            if self.state.outcome or self.state.step % self._checkpoint_every == 0:
                saved = self.state.step
                self.save()
        self.checkpoints.finish()

    def save(self) -> None:
        """Write a checkpoint of the present state."""
        self._add_time()
        if self.run is not None:
            self.state.metrics_size = self.run.metrics_size()
        self.checkpoints.save(self.state)

    def _step(self, stop: StopRequest) -> bool:
        """Take a step and do what is due after it; true if a signal came to a process before it."""
        config, state = self.config, self.state
        began = time.perf_counter()
        share = self.stepper.read(state.step)
        labels, stops = self.ranks.sum([share.labels, stop.requested])
        if stops:
            return True
        seen = self.stepper.gradients(share, labels)
        verdict = judge(seen, state.losses, state.bad_in_row, config.stability)
        rate = rate_at(config.optimiser, state.step, config.total_steps)
        if verdict in ("good", "spike"):
            self.stepper.apply(rate)
        state.add_step(seen, verdict, config.stability.spike_window)
        seconds = time.perf_counter() - began
        state.training_seconds += seconds
        self._since = self._since[0] + 1, self._since[1] + seconds
        self._record(verdict, seen["loss"], rate)
        return False

    def _record(self, verdict: Verdict, loss: float, rate: float) -> None:
        """Write what is due after a step, evaluate, and see whether the run has ended."""
        config, state = self.config, self.state
        if verdict != "good":
            self._write(event_line(state, verdict, None if verdict == "not_finite" else loss))
        if verdict == "not_finite" and state.bad_in_row > config.stability.max_bad_steps:
            state.outcome = "diverged"
        elif state.step >= config.total_steps:
            state.outcome = "finished"
        if state.step % config.log_every == 0 or state.outcome:
            self._write(training_line(state, state.take_means(), rate))
            self._note_rates()
        every = config.evaluate_every
        if every and (state.step % every == 0 or state.outcome == "finished"):
            self._note_held_out(self._evaluate())
        if stability_due(config, state.step):
            self._measure()
        self._show()

    def _evaluate(self) -> HeldOut:
        assert self._held_out is not None, "resolve refuses to evaluate without a split"
        whole, runtime = self.stepper.placement.whole_model(), self.stepper.runtime
        return evaluate(whole, self._held_out, self.config, runtime, self.ranks)

    def _note_held_out(self, found: HeldOut) -> None:
        """Write an evaluation; weights for which it is no number have diverged."""
        if math.isfinite(found.bits_per_byte):
            self.state.held_out = found
            self._write(held_out_line(found, step=self.state.step))
            return
        self.state.outcome = "diverged"
        self._write(event_line(self.state, "evaluation_not_finite"))

    def _measure(self) -> None:
        """Read the stability instruments, in the first process alone."""
        whole = self.stepper.placement.whole_model()
        if self.run is not None:
            runtime, step = self.stepper.runtime, self.state.step
            for line in stability_lines(whole, self._batches, runtime, self.config, step=step):
                self._write(line)

    def summary(self, config_hash: str) -> LmSummary:
        """What the ended run says.

        Args:
            config_hash: Hash of its configuration.

        Returns:
            The summary.
        """
        self._add_time()
        return summary_of(
            self.state,
            label=self.config.label,
            seed=self.config.seed,
            config_hash=config_hash,
            parameters=sum(p.numel() for p in self.stepper.placement.model.parameters()),
            tokens=self.state.step * self.config.tokens_per_step,
        )

    def _write(self, line: Mapping[str, Any]) -> None:
        if self.run is not None:
            self.run.append_metrics(line)
            if line["metrics"]:  # profiles have only curves
                self._tell(line["split"], line["metrics"])

    def _note_rates(self) -> None:
        self._add_time()
        rates = self._throughput.rates(*self._since)
        self._since = 0, 0.0
        if self.run is not None:
            state = self.state
            self.run.append_timing({"step": state.step, "seconds": state.seconds, **rates})
            self._tell("speed", rates)

    def _tell(self, split: str, numbers: Mapping[str, float | int]) -> None:
        for sink in self.sinks:
            sink.log(self.state.step, {f"{split}/{name}": x for name, x in numbers.items()})

    def _show(self) -> None:
        config, state = self.config, self.state
        if self.progress is None or (state.step % config.log_every and not state.outcome):
            return
        notes = {} if state.loss is None else {"loss": state.loss}
        if state.held_out is not None:
            notes["bits per byte"] = state.held_out.bits_per_byte
        name = f"{config.label} seed {config.seed}"
        final = state.outcome is not None
        self.progress(ProgressEvent(name, state.step, config.total_steps, notes=notes, final=final))

    def _add_time(self) -> None:
        now = time.perf_counter()
        self.state.seconds += now - self._clock
        self._clock = now
