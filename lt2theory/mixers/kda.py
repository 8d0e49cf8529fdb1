"""Kimi Delta Attention: the delta rule with one decay a channel (Kimi Linear, arXiv 2510.26692)."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from lt2theory.mixers.decay import mamba_decay, num_decays
from lt2theory.mixers.delta import DeltaMixer
from lt2theory.mixers.initialise import decay_rate_, time_step_bias_
from lt2theory.mixers.norm import RMSNorm
from lt2theory.mixers.options import MixerOptions
from lt2theory.mixers.rotary import rotate_factors
from lt2theory.mixers.stream import Slot, Stream
from lt2theory.ops.factors import Factors


class KimiDeltaAttention(DeltaMixer):
    """`S_t = (I - beta k k^T) diag(alpha) S_{t-1} + beta k v^T`, alpha a vector over channels.

    `log alpha = -exp(A_log) softplus(f(x) + dt_bias)` with a low-rank f; the output gate is a
    sigmoid. Parameter names of FLA's `KimiDeltaAttention`.
    """

    own_decay = "channel"

    def __init__(self, options: MixerOptions) -> None:
        super().__init__(options)
        width, rank = options.width, options.value_dim
        values = options.num_heads * options.value_dim
        decays = options.num_heads * num_decays(options, self.own_decay)
        if decays:
            self.f_proj = nn.Sequential(
                nn.Linear(width, rank, bias=False), nn.Linear(rank, decays, bias=False)
            )
        self.g_proj = nn.Sequential(
            nn.Linear(width, rank, bias=False), nn.Linear(rank, values, bias=True)
        )
        if decays:
            self.A_log = nn.Parameter(torch.zeros(options.num_heads))
            self.dt_bias = nn.Parameter(torch.zeros(decays))
        self.o_norm = RMSNorm(options.value_dim, options.norm_eps)

    @override
    def prepare(
        self, x: Float[Tensor, "b t d"], stream: Stream, slot: Slot | None = None
    ) -> Factors:
        log_decay = None
        if num_decays(self.options, self.own_decay):
            log_decay = mamba_decay(self.f_proj(x), self.A_log, self.dt_bias, self.options.head_dim)
        if self.fuses(x, slot):
            factors = replace(self.fused_factors(x, stream), log_decay=log_decay)
            return rotate_factors(factors, stream, self.options)
        q, k, v = self.project(x, stream, slot)
        factors = Factors(q, k, v, log_decay=log_decay, beta=self.erase_strength(x))
        return rotate_factors(factors, stream, self.options)

    @override
    def output(
        self, o: Float[Tensor, "b t h v"], x: Float[Tensor, "b t d"]
    ) -> Float[Tensor, "b t d"]:
        y: Tensor = self.o_proj(self.o_norm.gated(o, self.g_proj(x), x.dtype, "sigmoid"))
        return y

    @override
    def initialise(self, generator: torch.Generator, std: float) -> None:
        super().initialise(generator, std)
        if num_decays(self.options, self.own_decay):
            decay_rate_(self.A_log, generator, low=1.0)
            time_step_bias_(self.dt_bias, generator)
