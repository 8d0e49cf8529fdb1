"""What a language-model run keeps: its state between steps, its lines of metrics, its summary."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from lt2theory.cards import card
from lt2theory.fields import KnownFields
from lt2theory.training.lm.held_out import HeldOut
from lt2theory.training.lm.policy import Verdict

LmStatus = Literal["finished", "diverged"]


class LmTiming(KnownFields, frozen=True):
    """Wall-clock numbers; they are no part of what a resumed run reproduces.

    Attributes:
        seconds: All sessions together.
        training_seconds: Spent in training steps.
        tokens_per_second: Tokens trained on a second of `training_seconds`, over all processes.
    """

    seconds: float
    training_seconds: float
    tokens_per_second: float


class LmSummary(KnownFields, frozen=True):
    """What a finished run says; the contents of summary.json.

    Attributes:
        status: `finished`, or `diverged`: too many steps in a row, or an evaluation, were not
            finite.
        label: Name of the arm.
        seed: Seed of weights and data.
        config_hash: Hash of the configuration.
        parameters: Number of trained numbers.
        steps: Optimiser steps, those without effect included.
        tokens: Tokens read for them.
        loss: Mean loss of the last record of training, in nats a token; None if there is none.
        held_out: The last evaluation; None without one.
        not_finite: Steps that were not finite and changed nothing.
        spikes: Spikes of the loss.
        skipped_spikes: Those of them that changed nothing.
        timing: Wall-clock numbers.
    """

    status: LmStatus
    label: str
    seed: int
    config_hash: str
    parameters: int
    steps: int
    tokens: int
    loss: float | None
    held_out: HeldOut | None
    not_finite: int
    spikes: int
    skipped_spikes: int
    timing: LmTiming

    def _repr_html_(self) -> str:
        """What a notebook shows: the outcome; what went wrong is folded away."""
        always = ("status", "seed", "steps", "tokens", "parameters")
        facts: dict[str, object] = {name: getattr(self, name) for name in always}
        facts["loss (nats a token)"] = "none" if self.loss is None else self.loss
        if self.held_out is not None:
            facts["held out (bits per byte)"] = self.held_out.bits_per_byte
        facts["tokens a second"] = round(self.timing.tokens_per_second)
        names = ("not_finite", "spikes", "skipped_spikes", "config_hash")
        return card(f"Run {self.label}", facts, more={name: getattr(self, name) for name in names})


class LmState(KnownFields):
    """Where a run is between two steps: with weights and moments, all that the rest depends on.

    Attributes:
        step: Steps done.
        sums: Sums, over the good steps since the last record, of what they saw.
        summed: How many those are.
        losses: Losses of the last accepted steps, for the rule on spikes.
        bad_in_row: Steps without effect just before.
        not_finite: Steps so far that were not finite.
        spikes: Spikes so far.
        skipped_spikes: Those that changed nothing.
        loss: Mean loss of the last record.
        held_out: The last evaluation.
        outcome: How training ended, or None.
        metrics_size: Bytes of metrics.jsonl.
        seconds: Wall-clock seconds so far.
        training_seconds: Those spent in training steps.
        files: Names and sizes of the other files of this checkpoint.
    """

    step: int = 0
    sums: dict[str, float] = Field(default_factory=dict)
    summed: int = 0
    losses: list[float] = Field(default_factory=list)
    bad_in_row: int = 0
    not_finite: int = 0
    spikes: int = 0
    skipped_spikes: int = 0
    loss: float | None = None
    held_out: HeldOut | None = None
    outcome: LmStatus | None = None
    metrics_size: int = 0
    seconds: float = 0.0
    training_seconds: float = 0.0
    files: dict[str, int] = Field(default_factory=dict)

    def add_step(self, seen: Mapping[str, float], verdict: Verdict, window: int) -> None:
        """Count a step.

        Args:
            seen: What it saw.
            verdict: What became of it.
            window: Losses that are kept.
        """
        self.step += 1
        self.not_finite += verdict == "not_finite"
        self.spikes += verdict in ("spike", "skipped_spike")
        self.skipped_spikes += verdict == "skipped_spike"
        if verdict in ("not_finite", "skipped_spike"):
            self.bad_in_row += 1
            return
        self.bad_in_row = 0
        self.losses = [*self.losses, seen["loss"]][-window:]
        for name, value in seen.items():
            self.sums[name] = self.sums.get(name, 0.0) + value
        self.summed += 1

    def take_means(self) -> dict[str, float]:
        """Means over the good steps since the last call, and begin new ones.

        Returns:
            The means by name; empty if there was no good step.
        """
        means = {name: value / self.summed for name, value in self.sums.items()}
        self.loss = means.get("loss", self.loss)
        self.sums, self.summed = {}, 0
        return means


def training_line(state: LmState, means: Mapping[str, float], rate: float) -> dict[str, Any]:
    """Means over the steps since the last such record.

    Args:
        state: Where the run is.
        means: What `LmState.take_means` gave.
        rate: Learning rate of the last step.

    Returns:
        The record.
    """
    metrics = {**means, "learning_rate": rate, "not_finite": state.not_finite}
    return {"split": "train", "step": state.step, "metrics": metrics}


def event_line(state: LmState, what: str, loss: float | None = None) -> dict[str, Any]:
    """A step or an evaluation that went wrong.

    Args:
        state: Where the run is after it.
        what: What became of the step, or `evaluation_not_finite`.
        loss: Its loss; None leaves it out.

    Returns:
        The record.
    """
    metrics: dict[str, float] = {what: 1}
    if loss is not None:
        metrics["loss"] = loss
    return {"split": "event", "step": state.step, "metrics": metrics}


def summary_of(
    state: LmState, *, label: str, seed: int, config_hash: str, parameters: int, tokens: int
) -> LmSummary:
    """What a run says that has ended.

    Args:
        state: Where it ended.
        label: Name of the arm.
        seed: Seed of weights and data.
        config_hash: Hash of the configuration.
        parameters: Number of trained numbers.
        tokens: Tokens read.

    Returns:
        The summary.
    """
    assert state.outcome is not None, "the run has not ended"
    return LmSummary(
        status=state.outcome,
        label=label,
        seed=seed,
        config_hash=config_hash,
        parameters=parameters,
        steps=state.step,
        tokens=tokens,
        loss=state.loss,
        held_out=state.held_out,
        not_finite=state.not_finite,
        spikes=state.spikes,
        skipped_spikes=state.skipped_spikes,
        timing=LmTiming(
            seconds=state.seconds,
            training_seconds=state.training_seconds,
            tokens_per_second=tokens / max(state.training_seconds, 1e-9),
        ),
    )
