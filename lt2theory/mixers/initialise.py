"""Starting values that several mixers share.

They are drawn where the generator lives and then copied, so that a seed gives the same draws on
every device.
"""

import math

import torch
from torch import Tensor, nn


def truncated_normal_(weight: Tensor, std: float, generator: torch.Generator) -> None:
    """Fill with a normal of deviation `std`, cut at three deviations (LT2's public code).

    Args:
        weight: Tensor to fill; one on the meta device is left alone.
        std: Standard deviation before the cut.
        generator: Source of randomness.
    """
    if not weight.is_meta:
        drawn = torch.empty_like(weight, device=generator.device)
        nn.init.trunc_normal_(drawn, 0.0, std, -3 * std, 3 * std, generator=generator)
        _fill(weight, drawn)


def uniform_(weight: Tensor, low: float, high: float, generator: torch.Generator) -> None:
    """Fill uniformly from `[low, high)`.

    Args:
        weight: Tensor to fill; one on the meta device is left alone.
        low: Lower end.
        high: Upper end.
        generator: Source of randomness.
    """
    if not weight.is_meta:
        drawn = torch.empty_like(weight, device=generator.device)
        nn.init.uniform_(drawn, low, high, generator=generator)
        _fill(weight, drawn)


def decay_rate_(log_rate: Tensor, generator: torch.Generator, low: float = 0.0) -> None:
    """Fill `A_log` with the log of a rate uniform in `[low, 16)` (FLA's GDN: 0, KDA: 1).

    Args:
        log_rate: Parameter to fill.
        generator: Source of randomness.
        low: Smallest rate.
    """
    uniform_(log_rate, low, 16.0, generator)
    with torch.no_grad():
        log_rate.clamp_(min=1e-4).log_()


def time_step_bias_(bias: Tensor, generator: torch.Generator) -> None:
    """Fill `dt_bias` so that its softplus is log-uniform in [0.001, 0.1] (Mamba's start).

    Args:
        bias: Parameter to fill.
        generator: Source of randomness.
    """
    uniform_(bias, math.log(1e-3), math.log(1e-1), generator)
    with torch.no_grad():
        step = bias.exp().clamp_(min=1e-4)
        bias.copy_(step + torch.log(-torch.expm1(-step)))


def _fill(weight: Tensor, drawn: Tensor) -> None:
    """Copy the draw to the parameter's device."""
    with torch.no_grad():
        weight.copy_(drawn)
