"""One optimisation step: loss on the labelled positions, clipping, AdamW, divergence."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lt2theory.training.config_parts import OptimiserConfig
from lt2theory.training.runtime import Runtime
from tasks import Batch
from tasks.base import IGNORE


class DivergenceError(ArithmeticError):
    """The loss or the gradient is no longer a finite number; the weights were not changed."""


@dataclass(frozen=True)
class StepResult:
    """What one step saw.

    Attributes:
        loss: Mean cross-entropy over the labelled tokens, in nats, before the step.
        gradient_norm: Euclidean norm of the gradient before clipping, auxiliary losses included.
        auxiliary: The losses that parts of the model have of their own, before weighting, by name
            (`LoopedModel.forward`); empty for most models.
    """

    loss: float
    gradient_norm: float
    auxiliary: dict[str, float] = field(default_factory=dict)


@runtime_checkable
class Course(Protocol):
    """The fields of a configuration that say how a learning rate runs."""

    @property
    def schedule(self) -> str:
        """`constant`, `linear` or `cosine`."""

    @property
    def warmup_steps(self) -> int:
        """Steps of linear rise."""

    @property
    def final_fraction(self) -> float:
        """Where the course ends, as a fraction of the peak."""


def learning_rate_factor(config: Course, step: int, budget: int) -> float:
    """Fraction of the peak learning rate at a step of a stage: a pure function, so resume-safe.

    A linear rise to 1 over `warmup_steps`, then constant, linear or half a cosine period (SGDR,
    arXiv 1608.03983, equation 5) down to `final_fraction` at the last step of the budget.

    Args:
        config: The schedule.
        step: Steps done on this stage, from 0.
        budget: Most steps on this stage.

    Returns:
        A number in (0, 1].
    """
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    if config.schedule == "constant":
        return 1.0
    remaining = max(budget - 1 - config.warmup_steps, 1)
    done = min((step - config.warmup_steps) / remaining, 1.0)
    course = 1 - done if config.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2
    return config.final_fraction + (1 - config.final_fraction) * course


def make_optimiser(
    model: nn.Module, config: OptimiserConfig, *, capturable: bool = False
) -> torch.optim.AdamW:
    """AdamW (arXiv 1711.05101) with weight decay on matrices only.

    Args:
        model: The model.
        config: Its settings; the learning rate is set before every step.
        capturable: Whether its step can be part of a CUDA graph: the learning rates are then
            tensors on the model's device. What it keeps has the same form either way.

    Returns:
        The optimiser.
    """
    parameters = list(model.parameters())
    groups: list[dict[str, Any]] = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return fused_adamw(groups, config.betas, capturable=capturable)


def fused_adamw(
    groups: list[dict[str, Any]], betas: tuple[float, float], *, capturable: bool
) -> torch.optim.AdamW:
    """AdamW in one kernel, with learning rates that are set before every step.

    Args:
        groups: Parameters on one device, with what else a group has.
        betas: Decay of the two moments.
        capturable: As in `make_optimiser`.

    Returns:
        The optimiser.
    """
    device = groups[0]["params"][0].device
    for group in groups if capturable else ():
        group["lr"] = torch.zeros((), device=device)
    on_gpu = capturable and device.type == "cuda"
    return torch.optim.AdamW(groups, betas=betas, fused=True, capturable=on_gpu)


def masked_loss(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """Mean cross-entropy over the labelled positions.

    Args:
        logits: `[b t vocab]`.
        targets: Token ids `[b t]`, read where the mask is true.
        mask: Where there is a label `[b t]`.

    Returns:
        A scalar in nats, computed in float32.
    """
    return F.cross_entropy(logits[mask].float(), targets[mask])


def masked_loss_of_fixed_shape(logits: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
    """`masked_loss` without picking out the labelled positions, whose number the host would need.

    Args:
        logits: `[b t vocab]`.
        targets: Token ids `[b t]`, read where the mask is true.
        mask: Where there is a label `[b t]`.

    Returns:
        A scalar in nats, computed in float32.
    """
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.where(mask, IGNORE).flatten())


def clipped_gradients(
    model: nn.Module,
    batch: tuple[Tensor, Tensor, Tensor],
    *,
    clip: float | None,
    runtime: Runtime,
    auxiliary_weight: float,
    loss: Callable[[Tensor, Tensor, Tensor], Tensor] = masked_loss,
) -> dict[str, Tensor]:
    """The part of a step before the optimiser's.

    Args:
        model: The model, called as `LoopedModel` is; its gradients are replaced.
        batch: Inputs, targets and mask `[b t]`.
        clip: Largest gradient norm, or None.
        runtime: Device and precision.
        auxiliary_weight: Weight of the losses that parts of the model have of their own; at 0 they
            are not computed.
        loss: Cross-entropy from logits, targets and mask.

    Returns:
        Scalars by name: `loss`, `gradient norm` (before clipping), and the auxiliary losses.
    """
    inputs, targets, mask = batch
    model.zero_grad(set_to_none=True)
    own: dict[str, Tensor] = {}
    with runtime.autocast():
        logits = model(inputs, losses=own if auxiliary_weight else None)
    main = loss(logits, targets, mask)
    total = main
    for each in own.values():
        total = total + auxiliary_weight * each
    total.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), math.inf if clip is None else clip)
    return {"loss": main.detach(), "gradient norm": norm} | {
        name: each.detach() for name, each in own.items()
    }


def finite_result(values: Mapping[str, float]) -> StepResult:
    """What a step saw, if it is all finite.

    Args:
        values: Numbers by name, as `clipped_gradients` names them.

    Returns:
        The result.

    Raises:
        DivergenceError: One of them is not finite.
    """
    own = {name: x for name, x in values.items() if name not in ("loss", "gradient norm")}
    for name, value in values.items():
        if not math.isfinite(value):
            raise DivergenceError(f"the {name}{' loss' if name in own else ''} is {value}")
    return StepResult(values["loss"], values["gradient norm"], own)


def train_step(
    model: nn.Module,
    optimiser: torch.optim.Optimizer,
    batch: Batch,
    *,
    learning_rate: float,
    clip: float | None,
    runtime: Runtime,
    auxiliary_weight: float = 1.0,
) -> StepResult:
    """Take one optimisation step.

    Args:
        model: The model, called as `LoopedModel` is; changed in place.
        optimiser: Its optimiser, changed in place.
        batch: Training examples.
        learning_rate: For this step.
        clip: Largest gradient norm, or None.
        runtime: Device and precision.
        auxiliary_weight: Weight of the losses that parts of the model have of their own; at 0 they
            are not computed.

    Returns:
        Losses and gradient norm.

    Raises:
        DivergenceError: One of them is not finite; neither model nor optimiser has changed.
    """
    inputs, targets, mask = (runtime.tensor(array) for array in batch)
    seen = clipped_gradients(
        model,
        (inputs, targets, mask),
        clip=clip,
        runtime=runtime,
        auxiliary_weight=auxiliary_weight,
    )
    result = finite_result({name: value.item() for name, value in seen.items()})
    for group in optimiser.param_groups:
        group["lr"] = learning_rate
    optimiser.step()
    return result
