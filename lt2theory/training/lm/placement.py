"""A model placed on the processes of a run: whole in each, or sharded block by block.

Sharding is torch's FSDP2 (`fully_shard`): every process holds a slice of weights, gradients and
moments, and gathers a block's weights when it needs them. A looped block is needed in every loop,
so by default gathered weights stay until the step is over; `reshard` frees them after each use.
Weights are gathered in the dtype of the masters: what a block computes is the same as unsharded.
"""

import math
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor

from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.training.lm.objective import StepObjective
from lt2theory.training.lm.options import Execution, LmOptimiserConfig, Parallel
from lt2theory.training.lm.ranks import Ranks


class Placement:
    """A model on all processes.

    Args:
        objective: What is minimised, with the model in it, whole and with the same weights in
            every process.
        ranks: The processes.
        parallel: `fsdp` or `replicate`; without effect for one process.
        reshard: Whether gathered weights are freed after each use.

    Attributes:
        objective: To be called for every part of a step's windows.
        model: The model in it.
    """

    def __init__(
        self,
        objective: StepObjective,
        ranks: Ranks,
        *,
        parallel: Parallel,
        reshard: bool,
    ) -> None:
        model = objective.model
        self.model = model
        self.objective = objective
        self._ranks = ranks
        self._reshard = reshard
        self.sharded = ranks.size > 1 and parallel == "fsdp"
        if self.sharded:
            for block in model.blocks:
                fully_shard(block, mesh=ranks.mesh, reshard_after_forward=reshard)
            fully_shard(self.objective, mesh=ranks.mesh, reshard_after_forward=False)
            for part in self._parts():
                part.set_reshard_after_backward(reshard, recurse=False)

    @property
    def gradient_scale(self) -> float:
        """Factor of a loss before backward: sharding takes the mean of gradients, not the sum."""
        return float(self._ranks.size) if self.sharded else 1.0

    def begin_part(self, *, last: bool) -> None:
        """Prepare for forward and backward of a part of a step's windows.

        Args:
            last: Whether it is the step's last; gradients are shared with the others after it.
        """
        if self.sharded:
            assert isinstance(self.objective, FSDPModule)
            self.objective.set_requires_gradient_sync(last)
            self.objective.set_is_last_backward(last)

    def finish_gradients(self) -> None:
        """Make the gradients those of all processes' windows, after backward of the last part."""
        if self.sharded:
            if not self._reshard:
                for part in self._parts():
                    part.reshard()
        elif self._ranks.size > 1:
            gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
            whole = torch.cat([gradient.flatten() for gradient in gradients])
            dist.all_reduce(whole)
            sizes = [gradient.numel() for gradient in gradients]
            for gradient, part in zip(gradients, whole.split(sizes), strict=True):
                gradient.copy_(part.view_as(gradient))

    def clip(self, limit: float | None) -> Tensor:
        """Scale the gradient down to a norm.

        Args:
            limit: The largest norm; None only measures.

        Returns:
            Euclidean norm before it, over all processes.
        """
        norm = nn.utils.clip_grad_norm_(
            self.model.parameters(), math.inf if limit is None else limit
        )
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    def whole_model(self) -> LoopedModel:
        """A model that this process can run without the others; all must call this together.

        Returns:
            The model itself, or a copy with gathered weights where it is sharded.
        """
        if not self.sharded:
            return self.model
        with torch.device("meta"):
            copy = LoopedModel(self.model.config)
        parts = dict(self.model.named_parameters())
        first = next(iter(parts.values()))
        copy = copy.to_empty(device=self._ranks.device).to(first.dtype)
        with torch.no_grad():
            for name, parameter in copy.named_parameters():
                sharded = parts[name]
                assert isinstance(sharded, DTensor)
                parameter.copy_(sharded.full_tensor())
        return copy

    def _parts(self) -> Iterator[FSDPModule]:
        """The modules that are sharded on their own."""
        for module in self.objective.modules():
            if isinstance(module, FSDPModule):
                yield module


def choose_parallel(
    execution: Execution, optimiser: LmOptimiserConfig, whole: str = ""
) -> Parallel:
    """`fsdp` or `replicate`, as the execution asks, or as the rest needs it.

    Args:
        execution: How the run is carried out.
        optimiser: Its optimiser.
        whole: What of the objective needs whole weights, in words; nothing if it does not.

    Returns:
        The way in which processes share the work.

    Raises:
        ValueError: Sharding is asked for together with what needs whole weights.
    """
    needs = ["optimiser.name 'muon'"] * (optimiser.name == "muon") + ["compile"] * execution.compile
    needs += [whole] * bool(whole)
    if execution.parallel == "fsdp" and needs:
        raise ValueError(
            f"parallel: got 'fsdp', but {needs[0]} needs whole weights; allowed: 'replicate'"
        )
    if execution.parallel == "auto":
        return "replicate" if needs else "fsdp"
    return execution.parallel


def starting_model(
    config: LoopedConfig, seed: int, ranks: Ranks, dtype: torch.dtype
) -> LoopedModel:
    """The model at step 0, the same in every process.

    Args:
        config: Its configuration.
        seed: Seed of the weights.
        ranks: The processes.
        dtype: Of the weights.

    Returns:
        The model, on this process's device.
    """
    model = LoopedModel(config, generator=torch.Generator().manual_seed(seed))
    return model.to(ranks.device, dtype)
