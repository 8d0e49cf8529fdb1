"""Gated DeltaNet: the delta rule with one decay a head (Yang et al., arXiv 2412.06464)."""

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


class GatedDeltaNet(DeltaMixer):
    """`S_t = (I - beta k k^T) alpha S_{t-1} + beta k v^T`, alpha a scalar a head.

    `log alpha = -exp(A_log) softplus(x W_a + dt_bias)`. Parameter names of FLA's `GatedDeltaNet`.
    """

    own_decay = "head"

    def __init__(self, options: MixerOptions, num_factors: int = 1) -> None:
        super().__init__(options, num_factors)
        values = options.num_heads * options.value_dim
        decays = options.num_heads * num_decays(options, self.own_decay)
        if decays:
            self.a_proj = nn.Linear(options.width, decays, bias=False)
        self.g_proj = nn.Linear(options.width, values, bias=False)
        if decays:
            self.A_log = nn.Parameter(torch.zeros(options.num_heads))
            self.dt_bias = nn.Parameter(torch.zeros(decays))
        self.o_norm = RMSNorm(options.value_dim, options.norm_eps)

    @override
    def prepare(
        self, x: Float[Tensor, "b t d"], stream: Stream, slot: Slot | None = None
    ) -> Factors:
        if self.fuses(x, slot):
            decays = num_decays(self.options, self.own_decay)
            if decays == 1:
                decay = (self.a_proj.weight, self.A_log, self.dt_bias)
                return rotate_factors(self.fused_factors(x, stream, decay), stream, self.options)
            factors = replace(self.fused_factors(x, stream), log_decay=self.log_decay(x))
            return rotate_factors(factors, stream, self.options)
        q, k, v = self.project(x, stream, slot)
        factors = Factors(q, k, v, log_decay=self.log_decay(x), beta=self.erase_strength(x))
        return rotate_factors(factors, stream, self.options)

    def log_decay(
        self, x: Float[Tensor, "b t d"]
    ) -> Float[Tensor, "b t f h"] | Float[Tensor, "b t f h k"] | None:
        """Natural log of alpha.

        Args:
            x: Input `[b t d]`.

        Returns:
            One a head and factor `[b t f h]`, or as `decay_grain` says; None for no decay.
        """
        if not num_decays(self.options, self.own_decay):
            return None
        return mamba_decay(self.a_proj(x), self.A_log, self.dt_bias, self.options.head_dim)

    @override
    def output(
        self, o: Float[Tensor, "b t h v"], x: Float[Tensor, "b t d"]
    ) -> Float[Tensor, "b t d"]:
        y: Tensor = self.o_proj(self.o_norm.gated(o, self.g_proj(x), x.dtype, "silu"))
        return y

    @override
    def initialise(self, generator: torch.Generator, std: float) -> None:
        super().initialise(generator, std)
        if num_decays(self.options, self.own_decay):
            decay_rate_(self.A_log, generator)
            time_step_bias_(self.dt_bias, generator)
