"""One step of training: the windows of this process in parts, gradients, clipping, optimisers."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from lt2theory.training.lm.checks import check_execution
from lt2theory.training.lm.config import LmConfig
from lt2theory.training.lm.learner import Learner, language_model
from lt2theory.training.lm.objective import Place
from lt2theory.training.lm.optimisers import make_optimisers, set_rate
from lt2theory.training.lm.options import Execution
from lt2theory.training.lm.placement import Placement, choose_parallel
from lt2theory.training.lm.ranks import Ranks
from lt2theory.training.runtime import Runtime
from lt2theory.training.text import NO_TARGET, TextBatch, Windows


@dataclass(frozen=True)
class Share:
    """What a process reads at a step.

    Attributes:
        step: Steps done before.
        parts: Its windows, in parts that are run one after the other.
        labels: Labels in them.
    """

    step: int
    parts: tuple[TextBatch, ...]
    labels: int


@dataclass(frozen=True)
class Part:
    """Some windows of a step on the device.

    Attributes:
        inputs: Ids `[b t]`.
        targets: The id after each.
        documents: Documents of the inputs; None where each row is one unbroken stream.
        label_share: Their share of the step's labels.
        place: Where in the run they stand.
    """

    inputs: Tensor
    targets: Tensor
    documents: Tensor | None
    label_share: float | Tensor
    place: Place


class LmStepper:
    """Takes the steps of a run.

    The loss is the mean over all labels of a step, whichever process and part they fall into, so
    that neither the number of processes nor that of parts changes more than rounding.

    Args:
        config: A resolved configuration.
        execution: How it is carried out.
        ranks: The processes.
        batches: The windows.
        learner: What is trained; None for a language model from the run's own draw.

    Attributes:
        placement: The model on all processes.
        optimisers: Its optimisers.
        runtime: Device and precision.

    Raises:
        ValueError: As `check_execution`.
    """

    def __init__(
        self,
        config: LmConfig,
        execution: Execution,
        ranks: Ranks,
        batches: Windows,
        learner: Learner | None = None,
    ) -> None:
        check_execution(config, execution, ranks.size, "" if learner is None else learner.whole)
        learner = language_model(config, ranks) if learner is None else learner
        parallel = choose_parallel(execution, config.optimiser, learner.whole)
        self.config = config
        self.ranks = ranks
        self.runtime = lm_runtime(ranks.device, config.dtype)
        model = learner.model
        model.compiled = execution.compile
        self.placement = Placement(
            learner.objective(model), ranks, parallel=parallel, reshard=execution.reshard
        )
        in_graph = execution.cuda_graph and config.optimiser.name == "adamw"
        self.optimisers = make_optimisers(
            model, config.optimiser, learner.factors, capturable=in_graph
        )
        self._batches = batches
        self._rows = config.batch_size // ranks.size
        self._at_once = min(execution.micro_batch_size or self._rows, self._rows)
        self._ahead: Share | None = None
        self._names: tuple[str, ...] = ()

    def read(self, step: int) -> Share:
        """The windows of this process at a step.

        Args:
            step: Steps done before.

        Returns:
            The windows.
        """
        if self._ahead is not None and self._ahead.step == step:
            return self._ahead
        first = self.ranks.rank * self._rows
        stop = first + self._rows
        parts = tuple(
            self._batches.rows(step, start, min(start + self._at_once, stop))
            for start in range(first, stop, self._at_once)
        )
        labels = sum(int((part.targets != NO_TARGET).sum()) for part in parts)
        return Share(step, parts, labels)

    def gradients(self, share: Share, labels: float) -> dict[str, float]:
        """Forward and backward of a step, and clipping.

        Args:
            share: What this process reads.
            labels: Labels that all processes read.

        Returns:
            Numbers by name: the objective's, and `gradient_norm` before clipping; the same in every
            process.
        """
        numbers = self._launch(share, labels)
        # Read the next windows while a device still works on these.
        if share.step + 1 < self.config.total_steps:
            self._ahead = self.read(share.step + 1)
        return dict(zip(self._names, numbers.tolist(), strict=True))

    def _launch(self, share: Share, labels: float) -> Tensor:
        """Gradients of a step; returns its numbers, on the device."""
        first_row = self.ranks.rank * self._rows
        parts = []
        for part in share.parts:
            place = Place(share.step, self.config.total_steps, first_row)
            first_row += len(part.inputs)
            parts.append(self._part(part, labels, place))
        return self._accumulate(parts)

    def _part(self, part: TextBatch, labels: float, place: Place) -> Part:
        inputs, targets, documents = (self._moved(array) for array in part)
        unbroken = bool((part.documents == part.documents[:, :1]).all())
        share = label_share(part, labels)
        return Part(inputs, targets, None if unbroken else documents, share, place)

    def _accumulate(self, parts: Iterable[Part]) -> Tensor:
        """Gradients of all parts together, clipped; returns the numbers that `_names` names."""
        placement = self.placement
        placement.model.zero_grad(set_to_none=True)
        seen: dict[str, Tensor] = {}
        parts = list(parts)
        for number, part in enumerate(parts, start=1):
            placement.begin_part(last=number == len(parts))
            placement.objective.place = part.place
            for name, value in self._backward(part).items():
                seen[name] = seen[name] + value if name in seen else value
        placement.finish_gradients()
        norm = placement.clip(self.config.optimiser.clip)
        sums = torch.stack([value.double() for value in seen.values()])
        if self.ranks.size > 1:
            dist.all_reduce(sums)
        self._names = (*seen, "gradient_norm")
        return torch.cat([sums, norm.double()[None]])

    def apply(self, rate: float) -> None:
        """Let the optimisers use the gradients.

        Args:
            rate: Learning rate.
        """
        set_rate(self.optimisers, rate)
        for optimiser in self.optimisers:
            optimiser.step()

    def _backward(self, part: Part) -> dict[str, Tensor]:
        """Add the gradient of some windows; returns what they contribute to the step's numbers."""
        with self.runtime.autocast():
            loss, seen = self.placement.objective(
                part.inputs,
                part.targets,
                part.documents,
                label_share=part.label_share,
                row_share=len(part.inputs) / self.config.batch_size,
            )
        (loss * self.placement.gradient_scale).backward()
        return {name: value.detach() for name, value in seen.items()}

    def _moved(self, array: np.ndarray) -> Tensor:
        """An array on the device; from pinned memory, so that the host need not wait."""
        if self.ranks.device.type == "cpu":
            return torch.from_numpy(array)
        return torch.from_numpy(array).pin_memory().to(self.ranks.device, non_blocking=True)


def label_share(part: TextBatch, labels: float) -> float:
    """Share of a step's labels that some windows hold.

    Args:
        part: The windows.
        labels: Labels that all processes read.

    Returns:
        The share; 0 where there are no labels at all.
    """
    return float((part.targets != NO_TARGET).sum()) / max(labels, 1.0)


def lm_runtime(device: torch.device, dtype: str) -> Runtime:
    """Device and precision of a run.

    Args:
        device: The device.
        dtype: As in `LmConfig`; the products of float64 weights need no autocast.

    Returns:
        The runtime.
    """
    return Runtime(device, torch.bfloat16 if dtype == "bfloat16" else torch.float32)
