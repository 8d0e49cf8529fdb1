"""Gated DeltaNet: the delta rule with one decay a head (Yang et al., arXiv 2412.06464)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from lt2theory.mixers.base import at_least_float32
from lt2theory.mixers.delta import DeltaMixer
from lt2theory.mixers.initialise import decay_rate_, time_step_bias_
from lt2theory.mixers.norm import RMSNorm
from lt2theory.mixers.options import MixerOptions
from lt2theory.mixers.stream import Slot, Stream
from lt2theory.ops.factors import Factors


class GatedDeltaNet(DeltaMixer):
    """`S_t = (I - beta k k^T) alpha S_{t-1} + beta k v^T`, alpha a scalar a head.

    `log alpha = -exp(A_log) softplus(x W_a + dt_bias)`. Parameter names of FLA's `GatedDeltaNet`.
    """

    def __init__(self, options: MixerOptions) -> None:
        super().__init__(options)
        values = options.num_heads * options.value_dim
        self.a_proj = nn.Linear(options.width, options.num_heads, bias=False)
        self.g_proj = nn.Linear(options.width, values, bias=False)
        self.A_log = nn.Parameter(torch.zeros(options.num_heads))
        self.dt_bias = nn.Parameter(torch.zeros(options.num_heads))
        self.o_norm = RMSNorm(options.value_dim, options.norm_eps)

    @override
    def prepare(
        self, x: Float[Tensor, "b t d"], stream: Stream, slot: Slot | None = None
    ) -> Factors:
        q, k, v = self.project(x, stream, slot)
        step = F.softplus(at_least_float32(self.a_proj(x)) + self.dt_bias)
        log_decay = -(at_least_float32(self.A_log).exp() * step).unsqueeze(2)
        return Factors(q, k, v, log_decay=log_decay, beta=self.erase_strength(x))

    @override
    def output(
        self, o: Float[Tensor, "b t h v"], x: Float[Tensor, "b t d"]
    ) -> Float[Tensor, "b t d"]:
        gate = F.silu(at_least_float32(self.g_proj(x))).unflatten(-1, (self.options.num_heads, -1))
        y: Tensor = self.o_proj((self.o_norm(o) * gate).flatten(-2).to(x.dtype))
        return y

    @override
    def initialise(self, generator: torch.Generator, std: float) -> None:
        super().initialise(generator, std)
        decay_rate_(self.A_log, generator)
        time_step_bias_(self.dt_bias, generator)
