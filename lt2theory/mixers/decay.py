"""How many data-dependent decays a head has: the axis `decay_grain`.

A mixer with such a gate is defined with one decay a head (GDN) or one a key channel (KDA, GLA).
`decay_grain` replaces that number and nothing else: the gate's projection becomes narrower or
wider, and each decay rules `head_dim / n` consecutive channels of the head. At `own` the parameters
are the mixer's own, by name and shape.
"""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from lt2theory.mixers.base import at_least_float32
from lt2theory.mixers.options import MixerOptions

OwnGrain = Literal["head", "channel"]
"""How finely a mixer's decay is resolved by its definition."""


def num_decays(options: MixerOptions, own: OwnGrain) -> int:
    """Decays a head.

    Args:
        options: Options of the mixer.
        own: What `decay_grain="own"` stands for.

    Returns:
        0 (no decay), 1, `decay_groups` or `head_dim`.
    """
    grain = own if options.decay_grain == "own" else options.decay_grain
    numbers = {"none": 0, "head": 1, "grouped": options.decay_groups, "channel": options.head_dim}
    return numbers[grain]


def over_channels(
    log_decay: Float[Tensor, "b t h n"], head_dim: int
) -> Float[Tensor, "b t 1 h"] | Float[Tensor, "b t 1 h k"]:
    """Give every key channel the decay of its group, in the shape that `Factors` wants.

    Args:
        log_decay: Natural logs of n decays a head; n divides the head's width.
        head_dim: Key width k of a head.

    Returns:
        One a head `[b t 1 h]` where n is 1, one a channel `[b t 1 h k]` elsewhere.
    """
    groups = log_decay.shape[-1]
    if groups == 1:
        return log_decay.squeeze(-1).unsqueeze(2)
    return log_decay.repeat_interleave(head_dim // groups, -1).unsqueeze(2)


def mamba_decay(
    z: Float[Tensor, "b t m"],
    log_rate: Float[Tensor, " h"],
    bias: Float[Tensor, " m"],
    head_dim: int,
) -> Float[Tensor, "b t 1 h"] | Float[Tensor, "b t 1 h k"]:
    """`log alpha = -exp(A_log) softplus(z + dt_bias)`, as in Mamba2 (arXiv 2405.21060).

    Args:
        z: Projected input, the n decays of a head side by side (m = h n).
        log_rate: `A_log`, one a head whatever n is.
        bias: `dt_bias`.
        head_dim: Key width k of a head.

    Returns:
        As `over_channels`, in at least float32.
    """
    step = F.softplus(at_least_float32(z) + bias).unflatten(-1, (log_rate.shape[0], -1))
    return over_channels(-(at_least_float32(log_rate).exp().unsqueeze(-1) * step), head_dim)


def on_first_factor(
    log_decay: Float[Tensor, "b t 1 *rest"], num_factors: int
) -> Float[Tensor, "b t f *rest"]:
    """Let the first factor of a token decay, and the others not.

    Args:
        log_decay: Log decays of the tokens.
        num_factors: Factors f a token.

    Returns:
        Log decays of the factors, 0 after the first.
    """
    rest = log_decay.new_zeros(*log_decay.shape[:2], num_factors - 1, *log_decay.shape[3:])
    return torch.cat([log_decay, rest], 2)
