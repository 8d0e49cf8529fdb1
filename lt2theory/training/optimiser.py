"""One optimisation step: loss on the labelled positions, clipping, AdamW, divergence."""

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lt2theory.models import LoopedModel
from lt2theory.training.config import OptimiserConfig
from lt2theory.training.runtime import Runtime
from tasks import Batch


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


def learning_rate_factor(config: OptimiserConfig, step: int, budget: int) -> float:
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


def make_optimiser(model: nn.Module, config: OptimiserConfig) -> torch.optim.AdamW:
    """AdamW (arXiv 1711.05101) with weight decay on matrices only.

    Args:
        model: The model.
        config: Its settings; the learning rate is set before every step.

    Returns:
        The optimiser.
    """
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, betas=config.betas, fused=True)


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


def train_step(
    model: LoopedModel,
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
        model: The model, changed in place.
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
    own: dict[str, Tensor] = {}
    with runtime.autocast():
        logits = model(inputs, losses=own if auxiliary_weight else None)
    loss = masked_loss(logits, targets, mask)
    optimiser.zero_grad(set_to_none=True)
    total = loss
    for each in own.values():
        total = total + auxiliary_weight * each
    total.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), math.inf if clip is None else clip)
    result = StepResult(loss.item(), norm.item(), {name: x.item() for name, x in own.items()})
    values = {"loss": result.loss, "gradient norm": result.gradient_norm}
    for name, value in (values | {f"{x} loss": y for x, y in result.auxiliary.items()}).items():
        if not np.isfinite(value):
            raise DivergenceError(f"the {name} is {value}")
    for group in optimiser.param_groups:
        group["lr"] = learning_rate
    optimiser.step()
    return result
