"""Gated Linear Attention: a decay a channel from data (Yang et al., arXiv 2312.06635)."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from lt2theory.mixers.base import at_least_float32
from lt2theory.mixers.decay import num_decays, over_channels
from lt2theory.mixers.options import MixerOptions
from lt2theory.mixers.retention import RetentionMixer
from lt2theory.mixers.rotary import rotate_factors
from lt2theory.mixers.stream import Slot, Stream
from lt2theory.ops.factors import Factors

_GATE_RANK = 16
"""Width between the two matrices of the gate (FLA's `gate_low_rank_dim`)."""

_GATE_TEMPERATURE = 16.0
"""Divides the gate's logarithm, which keeps decays near one (FLA's `gate_logit_normalizer`)."""


class GatedLinearAttention(RetentionMixer):
    """`S_t = diag(alpha) S_{t-1} + k v^T` with `alpha = sigmoid(x W_1 W_2 + b)^(1/16)`.

    Equation 4 and section 4.4 of the paper. Parameter names of FLA's `GatedLinearAttention`,
    whose `expand_k` default of 0.5 is a `head_dim` of half of `width / num_heads`. Not carried:
    `clamp_min`, other values of `gate_low_rank_dim` and `gate_logit_normalizer`, and what
    `RetentionMixer` names.
    """

    own_decay = "channel"

    def __init__(self, options: MixerOptions) -> None:
        super().__init__(options)
        decays = options.num_heads * num_decays(options, self.own_decay)
        if decays:
            self.gk_proj = nn.Sequential(
                nn.Linear(options.width, _GATE_RANK, bias=False), nn.Linear(_GATE_RANK, decays)
            )

    @override
    def prepare(
        self, x: Float[Tensor, "b t d"], stream: Stream, slot: Slot | None = None
    ) -> Factors:
        q, k, v = self.project(x, stream, slot)
        log_decay = None
        if num_decays(self.options, self.own_decay):
            gate = at_least_float32(self.gk_proj(x)).unflatten(-1, (self.options.num_heads, -1))
            log_decay = over_channels(F.logsigmoid(gate) / _GATE_TEMPERATURE, self.options.head_dim)
        factors = Factors(q, k.unsqueeze(2), v.unsqueeze(2), log_decay=log_decay)
        return rotate_factors(factors, stream, self.options)
