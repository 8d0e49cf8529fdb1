"""One step of training: the windows of this process in parts, gradients, clipping, optimisers."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from lt2theory.training.lm.config import LmConfig
from lt2theory.training.lm.optimisers import make_optimisers, set_rate
from lt2theory.training.lm.options import Execution
from lt2theory.training.lm.placement import Placement, choose_parallel, starting_model
from lt2theory.training.lm.ranks import Ranks
from lt2theory.training.runtime import Runtime
from lt2theory.training.stepper import check_compiler
from lt2theory.training.text import NO_TARGET, TextBatch, TextBatches


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


class LmStepper:
    """Takes the steps of a run.

    The loss is the mean over all labels of a step, whichever process and part they fall into, so
    that neither the number of processes nor that of parts changes more than rounding.

    Args:
        config: A resolved configuration.
        execution: How it is carried out.
        ranks: The processes.
        batches: The windows.

    Attributes:
        placement: The model on all processes.
        optimisers: Its optimisers.
        runtime: Device and precision.

    Raises:
        ValueError: The processes cannot share a batch, or something that is asked for is missing.
    """

    def __init__(
        self, config: LmConfig, execution: Execution, ranks: Ranks, batches: TextBatches
    ) -> None:
        if config.batch_size % ranks.size:
            raise ValueError(
                f"batch_size: {config.batch_size} must be a multiple of the {ranks.size} processes"
            )
        parallel = choose_parallel(execution, config.optimiser)
        check_compiler(execution.compile)
        self.config = config
        self.ranks = ranks
        self.runtime = lm_runtime(ranks.device, config.dtype)
        model = starting_model(config.model, config.seed, ranks, config.weight_dtype)
        model.compiled = execution.compile
        self.placement = Placement(
            model,
            ranks,
            parallel=parallel,
            reshard=execution.reshard,
            auxiliary_weight=config.optimiser.auxiliary_weight,
        )
        self.optimisers = make_optimisers(model, config.optimiser)
        self._batches = batches
        self._rows = config.batch_size // ranks.size
        self._at_once = min(execution.micro_batch_size or self._rows, self._rows)
        self._ahead: Share | None = None

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
            Numbers by name: those of `Objective`, and `gradient_norm` before clipping; the same in
            every process.
        """
        placement = self.placement
        placement.model.zero_grad(set_to_none=True)
        seen: dict[str, Tensor] = {}
        for number, part in enumerate(share.parts, start=1):
            placement.begin_part(last=number == len(share.parts))
            for name, value in self._backward(part, labels).items():
                seen[name] = seen[name] + value if name in seen else value
        placement.finish_gradients()
        norm = placement.clip(self.config.optimiser.clip)
        sums = torch.stack([value.double() for value in seen.values()])
        if self.ranks.size > 1:
            dist.all_reduce(sums)
        # Read the next windows while a device still works on these.
        if share.step + 1 < self.config.total_steps:
            self._ahead = self.read(share.step + 1)
        *values, length = torch.cat([sums, norm.double()[None]]).tolist()
        return dict(zip(seen, values, strict=True)) | {"gradient_norm": length}

    def apply(self, rate: float) -> None:
        """Let the optimisers use the gradients.

        Args:
            rate: Learning rate.
        """
        set_rate(self.optimisers, rate)
        for optimiser in self.optimisers:
            optimiser.step()

    def _backward(self, part: TextBatch, labels: float) -> dict[str, Tensor]:
        """Add the gradient of some windows; returns what they contribute to the step's numbers."""
        inputs, targets, documents = (self._moved(array) for array in part)
        unbroken = bool((part.documents == part.documents[:, :1]).all())
        with self.runtime.autocast():
            loss, seen = self.placement.objective(
                inputs,
                targets,
                None if unbroken else documents,
                label_share=float((part.targets != NO_TARGET).sum()) / labels,
                row_share=len(part.inputs) / self.config.batch_size,
            )
        (loss * self.placement.gradient_scale).backward()
        return {name: value.detach() for name, value in seen.items()}

    def _moved(self, array: np.ndarray) -> Tensor:
        """An array on the device; from pinned memory, so that the host need not wait."""
        if self.ranks.device.type == "cpu":
            return torch.from_numpy(array)
        return torch.from_numpy(array).pin_memory().to(self.ranks.device, non_blocking=True)


def lm_runtime(device: torch.device, dtype: str) -> Runtime:
    """Device and precision of a run.

    Args:
        device: The device.
        dtype: As in `LmConfig`; the products of float64 weights need no autocast.

    Returns:
        The runtime.
    """
    return Runtime(device, torch.bfloat16 if dtype == "bfloat16" else torch.float32)
