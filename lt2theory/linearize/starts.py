"""Where a linear mixer starts: what a softmax layer does not tell it.

Queries, keys, values and outputs can be copied. Decays, erase strengths, gates, convolutions and
feature maps have no counterpart in the teacher; what is set here makes them harmless: a memory of
a sensible length, half-strength writes, everything else at identity.
"""

import math
from typing import Literal

import torch
from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Tensor, nn

from lt2theory.fields import Frozen
from lt2theory.mixers import (
    MLSTM,
    GatedDeltaNet,
    GatedLinearAttention,
    KimiDeltaAttention,
    LinearMixer,
)
from lt2theory.mixers.delta import DeltaMixer
from lt2theory.mixers.linear_attention import HadamardFeatureMap
from lt2theory.mixers.short_conv import ShortConvolution

STUDENT_MIXERS = ("mlstm", "gla", "gdn", "deltanet", "retnet", "kda", "linear_attention")
"""The seven mixers of arXiv 2504.14366."""

_GLA_TEMPERATURE = 16.0
"""As in `lt2theory.mixers.gla`."""


class Start(Frozen):
    """How a student's linear mixers start."""

    copied: bool = Field(
        True, description="Copy queries, keys, values and outputs; otherwise the mixer's own draw."
    )
    expansion: Literal["heads", "tiled"] = Field(
        "heads",
        description="Key-value heads that several query heads share: each query head gets its own "
        "copy of the one that it reads, or, on purpose wrong, of another one ('tiled').",
    )
    value_scale: float = Field(
        1.0,
        gt=0,
        le=1e3,
        description="Factor on copied values: the norm of the heads undoes it, but a silu behind "
        "the projection is nearly linear for small ones.",
    )
    conv: Literal["identity", "own"] = Field(
        "identity", description="Short convolutions that pass the token itself, or the own draw."
    )
    feature_map: Literal["identity", "own"] = Field(
        "identity", description="Feature maps of linear attention."
    )
    decay: Literal["own", "spread", "attention"] = Field(
        "spread",
        description="Half-lives of a head's memory: the mixer's own draw, spread evenly in the "
        "logarithm over the heads, or the mean distance that the teacher's head attends to.",
    )
    half_lives: tuple[float, float] = Field(
        (3.0, 32.0), description="Shortest and longest half-life in tokens."
    )
    beta: Literal["half", "own"] = Field(
        "half", description="Erase strength: one half (of its range) whatever the input, or drawn."
    )
    gate: Literal["fitted", "open", "zero", "own"] = Field(
        "fitted",
        description="Output gate: fitted to how much the teacher's heads say at each token, as "
        "near to a constant as its form allows, closed (where it is a silu), or drawn.",
    )
    output: Literal["copied", "scaled", "solved"] = Field(
        "solved",
        description="Output projection: as copied, scaled a head by least squares, or solved for "
        "by ridge regression around that.",
    )
    inputs: Literal["teacher", "student"] = Field(
        "teacher",
        description="Stream on which mixers are fitted: the teacher's, or that which the student's "
        "layers before give, one layer after the other (a run of the model for each).",
    )
    ridge: float = Field(
        1e-2, gt=0, le=1e6, description="Weight of the ridge, by the inputs' mean square."
    )

    @model_validator(mode="after")
    def _check(self) -> "Start":
        low, high = self.half_lives
        if not 0.1 <= low <= high <= 1e6:
            raise ValueError(
                f"half_lives: {self.half_lives} is not allowed (must be 0.1 <= shortest <= "
                "longest <= 1e6)"
            )
        return self

    @property
    def needs_calibration(self) -> bool:
        """Whether the teacher has to be run on some text first."""
        return self.decay == "attention" or self.gate in ("fitted", "open") or self.is_fitted

    @property
    def is_fitted(self) -> bool:
        """Whether the output projection is fitted."""
        return self.output != "copied"


def spread_half_lives(start: Start, num_heads: int) -> Float[Tensor, " h"]:
    """Half-lives from the shortest to the longest, evenly in the logarithm.

    Args:
        start: The start.
        num_heads: Heads.

    Returns:
        One a head, float64; the geometric mean where there is one head.
    """
    low, high = (math.log(end) for end in start.half_lives)
    if num_heads == 1:
        return torch.tensor([(low + high) / 2], dtype=torch.float64).exp()
    return torch.linspace(low, high, num_heads, dtype=torch.float64).exp()


@torch.no_grad()
def set_half_lives(mixer: LinearMixer, half_lives: Float[Tensor, " h"]) -> bool:
    """Let each head forget half of its state in so many tokens, whatever the input.

    The part of the gate that reads the input starts at zero, which leaves it all its gradients.

    Args:
        mixer: The mixer, changed in place.
        half_lives: Tokens, one a head; all channels of a head are alike.

    Returns:
        Whether the mixer has decays to set: RetNet's are fixed, and DeltaNet and linear attention
        have none.
    """
    rate = math.log(2.0) / half_lives.double()  # - log alpha
    if isinstance(mixer, GatedDeltaNet | KimiDeltaAttention) and hasattr(mixer, "A_log"):
        gate = mixer.a_proj if isinstance(mixer, GatedDeltaNet) else mixer.f_proj[-1]
        _zero(gate)
        nn.init.zeros_(mixer.A_log)
        _fill(mixer.dt_bias, torch.log(torch.expm1(rate)))
        return True
    if isinstance(mixer, GatedLinearAttention) and hasattr(mixer, "gk_proj"):
        _zero(mixer.gk_proj[-1])
        _fill(_bias(mixer.gk_proj[-1]), -torch.log(torch.expm1(_GLA_TEMPERATURE * rate)))
        return True
    if isinstance(mixer, MLSTM):
        logit = -torch.log(torch.expm1(rate))
        cap = mixer.options.gate_soft_cap
        if cap is not None:
            logit = cap * torch.atanh((logit / cap).clamp(-1 + 1e-6, 1 - 1e-6))
        _zero(mixer.fgate_preact)
        _fill(_bias(mixer.fgate_preact), logit)
        return True
    return False


@torch.no_grad()
def set_identities(mixer: LinearMixer, start: Start) -> None:
    """Set convolutions, feature maps, erase strengths and input gates.

    Args:
        mixer: The mixer, changed in place.
        start: What to set.
    """
    for module in mixer.modules():
        if isinstance(module, ShortConvolution) and start.conv == "identity":
            nn.init.zeros_(module.weight)
            module.weight[:, 0, -1] = 1.0
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        if isinstance(module, HadamardFeatureMap) and start.feature_map == "identity":
            nn.init.eye_(module.layer1.weight)
            nn.init.zeros_(module.layer1.bias)
            nn.init.zeros_(module.layer2.weight)
            nn.init.ones_(module.layer2.bias)
    if isinstance(mixer, DeltaMixer) and start.beta == "half":
        _zero(mixer.b_proj)
    if isinstance(mixer, MLSTM) and start.beta == "half":
        _zero(mixer.igate_preact)
        nn.init.constant_(mixer.igate_preact.bias, -math.log(2.0))


def _zero(module: nn.Module) -> None:
    assert isinstance(module, nn.Linear)
    nn.init.zeros_(module.weight)


def _bias(module: nn.Module) -> Tensor:
    assert isinstance(module, nn.Linear)
    assert module.bias is not None
    return module.bias


def _fill(parameter: Tensor, by_head: Tensor) -> None:
    """One number a head, for as many entries as a head has."""
    each = parameter.numel() // by_head.numel()
    parameter.copy_(by_head.repeat_interleave(each).to(parameter))
