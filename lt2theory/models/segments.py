"""How a recurrence keeps to its segments: decays that empty the state between two of them."""

from dataclasses import replace

import torch

from lt2theory.mixers import Stream
from lt2theory.ops.factors import Factors

_RESET = {torch.float32: -110.0, torch.float64: -800.0}
"""Log decays whose exponential is exactly zero: they empty the state at a segment's start."""


def respect_segments(factors: Factors, stream: Stream) -> Factors:
    """Empty the state where a segment starts, and leave it alone at padding.

    Args:
        factors: The factors that the op would receive in one unbroken stream.
        stream: The tokens' segments.

    Returns:
        Factors with the same meaning within every segment; the very same object for an unbroken
        stream.
    """
    starts = stream.starts()
    if starts is None or stream.segments is None:
        return factors
    real = (stream.segments >= 0)[:, :, None, None]
    zeros = torch.zeros_like(factors.k[..., 0])
    decay = zeros if factors.log_decay is None else factors.log_decay
    vector = decay.dim() == factors.k.dim()
    decay = torch.where(real.unsqueeze(-1) if vector else real, decay, 0.0)
    reset = torch.zeros_like(zeros)
    reset[:, :, 0] = torch.where(starts, _RESET[zeros.dtype], 0.0).unsqueeze(-1)
    reset = reset.unsqueeze(-1) if vector else reset
    # Not the minimum of both everywhere: at a tie, such as no decay beside no reset, a gradient
    # would go in halves, and to the half that is a constant.
    decay = torch.where(reset < 0, torch.minimum(decay, reset), decay)
    beta = None if factors.beta is None else torch.where(real, factors.beta, 0.0)
    write = factors.write
    if write is not None or beta is None:
        write = torch.where(real, zeros + 1.0 if write is None else write, 0.0)
    return replace(factors, log_decay=decay, beta=beta, write=write)
