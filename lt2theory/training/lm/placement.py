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
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor

from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.models.loop_loss import loop_loss
from lt2theory.training.lm.options import Execution, LmOptimiserConfig, Parallel
from lt2theory.training.lm.ranks import Ranks


class Objective(nn.Module):
    """What a step minimises, as a module: sharding hooks into its call.

    Args:
        model: The model.
        auxiliary_weight: Weight of the losses that parts of it have of their own.
    """

    def __init__(self, model: LoopedModel, auxiliary_weight: float) -> None:
        super().__init__()
        self.model = model
        self.auxiliary_weight = auxiliary_weight

    def forward(
        self,
        inputs: Int[Tensor, "b t"],
        targets: Int[Tensor, "b t"],
        documents: Int[Tensor, "b t"] | None,
        *,
        label_share: float,
        row_share: float,
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """Contribution of some windows to the loss of a step.

        Args:
            inputs: Ids.
            targets: The id after each; -100 where there is none.
            documents: Documents of the inputs; None where each row is one unbroken stream.
            label_share: Their share of the step's labels, by which means over labels are weighted.
            row_share: Their share of its windows, likewise for auxiliary losses.

        Returns:
            The contribution, with a gradient, and by name those to the numbers that are reported:
            `loss`, `loop_<n>_loss`, `exit_<n>` and `<name>_loss`, without.
        """
        own: dict[str, Tensor] = {}
        wanted = own if self.auxiliary_weight else None
        found = loop_loss(self.model, inputs, targets, documents=documents, losses=wanted)
        total = found.total * label_share
        seen = {"loss": total.detach()}
        if len(found.by_loop) > 1:
            for loop, value in enumerate(found.by_loop, start=1):
                seen[f"loop_{loop}_loss"] = value * label_share
        for loop, value in enumerate(() if found.exits is None else found.exits, start=1):
            seen[f"exit_{loop}"] = value * label_share
        for name, value in own.items():
            total = total + self.auxiliary_weight * row_share * value
            seen[f"{name}_loss"] = value.detach() * row_share
        return total, seen


class Placement:
    """A model on all processes.

    Args:
        model: The model, whole, with the same weights in every process.
        ranks: The processes.
        parallel: `fsdp` or `replicate`; without effect for one process.
        reshard: Whether gathered weights are freed after each use.
        auxiliary_weight: As in `Objective`.

    Attributes:
        objective: To be called for every part of a step's windows.
        model: The model in it.
    """

    def __init__(
        self,
        model: LoopedModel,
        ranks: Ranks,
        *,
        parallel: Parallel,
        reshard: bool,
        auxiliary_weight: float,
    ) -> None:
        self.model = model
        self.objective = Objective(model, auxiliary_weight)
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


def choose_parallel(execution: Execution, optimiser: LmOptimiserConfig) -> Parallel:
    """`fsdp` or `replicate`, as the execution asks, or as the rest needs it.

    Args:
        execution: How the run is carried out.
        optimiser: Its optimiser.

    Returns:
        The way in which processes share the work.

    Raises:
        ValueError: Sharding is asked for together with what needs whole weights.
    """
    needs = ["optimiser.name 'muon'"] * (optimiser.name == "muon") + ["compile"] * execution.compile
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
