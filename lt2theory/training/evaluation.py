"""Accuracies of a model on a batch, with intervals, and accuracy along the sequence."""

import math
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor
from torch.nn import functional as F

from lt2theory.fields import KnownFields
from lt2theory.models import LoopedConfig
from lt2theory.training.passes import rows_of_pass
from lt2theory.training.runtime import Runtime
from tasks import Batch, Task

CONFIDENCE = 0.95


class Interval(KnownFields, frozen=True):
    """A 95 % interval of an accuracy.

    Attributes:
        low: Its lower end.
        high: Its upper end.
    """

    low: float
    high: float


class Evaluation(KnownFields, frozen=True):
    """Accuracies on n instances.

    Attributes:
        n: Instances.
        scored_accuracy: Mean over the instances of each one's share of right answers among the
            positions that the task scores: what promotion and every quoted accuracy use.
        scored_interval: Wilson interval of `scored_accuracy`.
        sequence_accuracy: Share of the instances with every labelled position right.
        sequence_interval: Wilson interval of `sequence_accuracy`.
        token_accuracy: Share of right answers among all labelled tokens.
        loss: Mean cross-entropy of the labelled tokens, in nats; None where it is not finite.
        scored_loss: The same over the scored positions.
    """

    n: int
    scored_accuracy: float
    scored_interval: Interval
    sequence_accuracy: float
    sequence_interval: Interval
    token_accuracy: float
    loss: float | None
    scored_loss: float | None


class Curves(KnownFields, frozen=True):
    """Accuracy along the sequence, at the positions where some instance has a label.

    Attributes:
        positions: The positions, from 0.
        position_accuracy: Share of right answers among the instances labelled there.
        exact_prefix_accuracy: Share of the instances with no wrong answer up to and including it.
    """

    positions: tuple[int, ...]
    position_accuracy: tuple[float, ...]
    exact_prefix_accuracy: tuple[float, ...]


def wilson(mean: float, n: int) -> Interval:
    """Wilson's score interval at 95 % (Wilson 1927), for the mean of n numbers in [0, 1].

    It is exact in form for right-or-wrong answers. For shares, such as the part of an instance's
    queries answered rightly, it is conservative: numbers in [0, 1] with mean p have a variance of
    at most p(1-p), which only zeros and ones reach (Bhatia and Davis 2000). Instances are
    independent, the positions of one are not, so n counts instances. A sum of shares that is no
    integer is rounded down for the lower end and up for the upper.

    Args:
        mean: Their mean.
        n: How many.

    Returns:
        The interval.
    """
    total = mean * n
    low, high = math.floor(total + 1e-6), min(math.ceil(total - 1e-6), n)
    from scipy.stats import binomtest  # seconds to import, and wanted at the end of a stage

    def ends(successes: int) -> tuple[float, float]:
        return tuple(binomtest(successes, n).proportion_ci(CONFIDENCE, method="wilson"))

    return Interval(low=ends(low)[0], high=ends(high)[1])


@runtime_checkable
class Answering(Protocol):
    """What `predict` needs of a model: `LoopedModel` has it, and so have stand-ins of benches."""

    config: LoopedConfig

    @property
    def training(self) -> bool:
        """Whether it is in training mode."""

    def eval(self) -> object:
        """Leave training mode."""

    def train(self, mode: bool = True) -> object:
        """Enter training mode, or leave it.

        Args:
            mode: Whether to enter it.
        """

    def __call__(self, tokens: Tensor) -> Tensor:
        """Logits of every position.

        Args:
            tokens: Token ids `[b t]`.

        Returns:
            Logits `[b t vocab]`.
        """


def predict(
    model: Answering, batch: Batch, runtime: Runtime
) -> tuple[Bool[np.ndarray, "b t"], Float64[np.ndarray, "b t"]]:
    """Let a model answer a batch.

    Args:
        model: The model; left in training mode if it was.
        batch: Instances.
        runtime: Device and precision.

    Returns:
        Where its likeliest token is the label, and the cross-entropy there; false and 0 where there
        is no label. An answer that is not a number is wrong, whatever torch's argmax makes of it.
    """
    size, length = batch.inputs.shape
    correct = np.zeros((size, length), dtype=bool)
    losses = np.zeros((size, length))
    rows = rows_of_pass(model.config, length, runtime.device)
    training = model.training
    model.eval()
    with torch.no_grad():
        for start in range(0, size, rows):
            part = slice(start, start + rows)
            inputs, targets, mask = (runtime.tensor(array[part]) for array in batch)
            with runtime.alone(), runtime.autocast():
                logits = model(inputs)
            answers, labels = logits[mask].float(), targets[mask]
            places = batch.mask[part]
            loss = F.cross_entropy(answers, labels, reduction="none")
            right = (answers.argmax(-1) == labels) & ~loss.isnan()
            correct[part][places] = right.cpu().numpy()
            losses[part][places] = loss.cpu().numpy()
    model.train(training)
    return correct, losses


def summarise(
    correct: Bool[np.ndarray, "b t"],
    losses: Float64[np.ndarray, "b t"],
    mask: Bool[np.ndarray, "b t"],
    scored: Bool[np.ndarray, "b t"],
) -> Evaluation:
    """Accuracies and losses from the answers.

    Args:
        correct: Right answers; read where `mask` is true.
        losses: Cross-entropies; read where `mask` is true.
        mask: Labelled positions.
        scored: Scored positions, at least one in every row, all of them labelled.

    Returns:
        The evaluation.
    """
    assert not (scored & ~mask).any()
    assert scored.any(axis=1).all()
    n = len(mask)
    scored_accuracy = float(((correct & scored).sum(1) / scored.sum(1)).mean())
    sequence_accuracy = float((correct | ~mask).all(1).mean())
    return Evaluation(
        n=n,
        scored_accuracy=scored_accuracy,
        scored_interval=wilson(scored_accuracy, n),
        sequence_accuracy=sequence_accuracy,
        sequence_interval=wilson(sequence_accuracy, n),
        token_accuracy=float(correct[mask].mean()),
        loss=_finite(losses[mask].mean()),
        scored_loss=_finite(losses[scored].mean()),
    )


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def accuracy_curves(correct: Bool[np.ndarray, "b t"], mask: Bool[np.ndarray, "b t"]) -> Curves:
    """Accuracy along the sequence.

    Args:
        correct: Right answers; read where `mask` is true.
        mask: Labelled positions.

    Returns:
        The curves. An instance without a label so far has no wrong answer either, so it counts as
        right in the exact-prefix accuracy.
    """
    labelled = mask.sum(0)
    positions = np.flatnonzero(labelled)
    right = (correct & mask).sum(0)[positions] / labelled[positions]
    prefix = np.logical_and.accumulate(correct | ~mask, axis=1).mean(0)[positions]
    return Curves(
        positions=tuple(positions.tolist()),
        position_accuracy=tuple(right.tolist()),
        exact_prefix_accuracy=tuple(prefix.tolist()),
    )


def evaluate(
    model: Answering, task: Task, batch: Batch, runtime: Runtime
) -> tuple[Evaluation, Curves]:
    """Evaluate a model on a batch.

    Args:
        model: The model.
        task: The task that made the batch; it says which positions are scored.
        batch: Instances.
        runtime: Device and precision.

    Returns:
        Accuracies and losses, and accuracy along the sequence.
    """
    correct, losses = predict(model, batch, runtime)
    evaluation = summarise(correct, losses, batch.mask, task.scored(batch))
    return evaluation, accuracy_curves(correct, batch.mask)
