"""Parameter groups and optimisers: what is decayed, what Muon takes, and AdamW for the rest."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lt2theory.models import LoopedModel
from lt2theory.training.lm.options import LmOptimiserConfig
from lt2theory.training.optimiser import fused_adamw

FIELDS = {"AdamW": ("step", "exp_avg", "exp_avg_sq"), "Muon": ("momentum_buffer",)}
"""What each optimiser keeps of a parameter; `step` is a scalar, the others have its shape."""


def parameter_groups(model: LoopedModel) -> dict[str, list[nn.Parameter]]:
    """The parameters by what they are.

    Args:
        model: The model, sharded or not.

    Returns:
        `matrix` (weights of the products in the blocks), `embedding` (embeddings and head) and
        `other` (gains, biases, decays, taps of convolutions, the gates of loops and exits).
    """
    groups: dict[str, list[nn.Parameter]] = {"matrix": [], "embedding": [], "other": []}
    for name, module in model.named_modules():
        for parameter in module.parameters(recurse=False):
            if isinstance(module, nn.Embedding) or name == "head":
                groups["embedding"].append(parameter)
            elif isinstance(module, nn.Linear) and "blocks." in name and parameter.dim() == 2:
                groups["matrix"].append(parameter)
            else:
                groups["other"].append(parameter)
    return groups


def make_optimisers(
    model: LoopedModel,
    config: LmOptimiserConfig,
    factors: Mapping[str, float] | None = None,
    *,
    capturable: bool = False,
) -> tuple[torch.optim.Optimizer, ...]:
    """AdamW (arXiv 1711.05101), or Muon (Jordan et al. 2024) for the matrices and AdamW beside it.

    Args:
        model: The model, on its device and sharded already; what has no gradient is left out.
        config: Settings; the learning rate is set before every step.
        factors: Of the learning rate, by name of the parameter; 1 for those that are not named.
        capturable: Whether AdamW's step can be part of a CUDA graph: its learning rates are then
            tensors on the model's device. What it keeps has the same form either way.

    Returns:
        The optimisers, which share no parameter.

    Raises:
        ValueError: Muon is asked for, and this torch has none.
    """
    groups = parameter_groups(model)
    decay = config.weight_decay
    of_embeddings = decay if config.decay_embeddings else 0.0
    factor_of = {id(p): (factors or {}).get(name, 1.0) for name, p in model.named_parameters()}
    matrices = _by_factor(groups["matrix"], factor_of, decay)
    small = _by_factor(groups["embedding"], factor_of, of_embeddings)
    small += _by_factor(groups["other"], factor_of, 0.0)
    if config.name == "adamw":
        return _allocated(fused_adamw([*matrices, *small], config.betas, capturable=capturable))
    check_muon()
    muon = torch.optim.Muon(matrices, momentum=config.momentum, adjust_lr_fn="match_rms_adamw")
    return _allocated(muon, fused_adamw(small, config.betas, capturable=capturable))


def check_muon() -> None:
    """Refuse a torch without Muon.

    Raises:
        ValueError: It is older than 2.9.
    """
    if not hasattr(torch.optim, "Muon"):
        raise ValueError(
            f"optimiser.name: 'muon' needs torch >= 2.9, and this is {torch.__version__}; "
            "allowed: 'adamw'"
        )


def _by_factor(
    parameters: Sequence[nn.Parameter], factor_of: Mapping[int, float], decay: float
) -> list[dict[str, Any]]:
    """One group for every factor of the learning rate, of what is trained."""
    groups: dict[float, list[nn.Parameter]] = {}
    for parameter in parameters:
        if parameter.requires_grad:
            groups.setdefault(factor_of[id(parameter)], []).append(parameter)
    return [
        {"params": own, "weight_decay": decay, "factor": factor} for factor, own in groups.items()
    ]


def _allocated(*optimisers: torch.optim.Optimizer) -> tuple[torch.optim.Optimizer, ...]:
    """The optimisers with the state of a first step: a checkpoint is loaded into it."""
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            for parameter in group["params"]:
                state = optimiser.state[parameter]
                for field in FIELDS[type(optimiser).__name__]:
                    state[field] = (
                        torch.zeros((), dtype=torch.float32, device=parameter.device)
                        if field == "step"
                        else torch.zeros_like(parameter)
                    )
    return optimisers


def set_rate(optimisers: Sequence[torch.optim.Optimizer], rate: float) -> None:
    """Set the learning rate of the next step.

    Args:
        optimisers: The optimisers, changed in place.
        rate: The rate; each group's is so many times its factor.
    """
    for optimiser in optimisers:
        for group in optimiser.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate * group["factor"])
            else:
                group["lr"] = rate * group["factor"]
