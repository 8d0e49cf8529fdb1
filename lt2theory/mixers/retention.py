"""What RetNet and GLA share: linear attention with a decay, a norm a head and an output gate."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from lt2theory.mixers.base import LinearMixer, at_least_float32
from lt2theory.mixers.norm import RMSNorm
from lt2theory.mixers.options import MixerOptions
from lt2theory.mixers.short_conv import ShortConvolution, short_convolution
from lt2theory.mixers.stream import Slot, Stream


class RetentionMixer(LinearMixer):
    """Base of RetNet and GLA: plain projections, and `o_proj(norm(o) * silu(x W_g))`.

    As in FLA, q, k and v pass a silu exactly where there is a short convolution (`conv_width` of
    0 is FLA's `use_short_conv=False`, its default for both). Parameter names are FLA's: `q_proj`,
    `k_proj`, `v_proj`, `g_proj`, `{q,k,v}_conv1d.weight`, `g_norm_swish_gate.weight`, `o_proj`.
    Not carried of FLA's options: `num_kv_heads`, `feature_map`, `conv_bias`,
    `use_output_gate=False` and another `gate_fn`.
    """

    def __init__(self, options: MixerOptions) -> None:
        super().__init__(options)
        keys = options.num_heads * options.head_dim
        values = options.num_heads * options.value_dim
        self.q_proj = nn.Linear(options.width, keys, bias=False)
        self.k_proj = nn.Linear(options.width, keys, bias=False)
        self.v_proj = nn.Linear(options.width, values, bias=False)
        self.g_proj = nn.Linear(options.width, values, bias=False)
        if options.conv_width:
            self.q_conv1d = ShortConvolution(keys, options.conv_width)
            self.k_conv1d = ShortConvolution(keys, options.conv_width)
            self.v_conv1d = ShortConvolution(values, options.conv_width)
        self.g_norm_swish_gate = RMSNorm(options.value_dim, options.norm_eps)
        self.o_proj = nn.Linear(values, options.width, bias=False)

    def project(
        self, x: Float[Tensor, "b t d"], stream: Stream, slot: Slot | None
    ) -> tuple[Float[Tensor, "b t h k"], Float[Tensor, "b t h k"], Float[Tensor, "b t h v"]]:
        """Queries, keys and values, after convolution and silu where there is one.

        Args:
            x: Input `[b t d]`.
            stream: Segments of these tokens.
            slot: Convolution history, updated.

        Returns:
            q and k `[b t h k]`, v `[b t h v]`, in at least float32.
        """
        z = at_least_float32(torch.cat([self.q_proj(x), self.k_proj(x), self.v_proj(x)], -1))
        if self.options.conv_width:
            convs = (self.q_conv1d, self.k_conv1d, self.v_conv1d)
            z = F.silu(short_convolution(z, torch.cat([c.weight for c in convs]), stream, slot))
        keys, heads = self.q_proj.out_features, self.options.num_heads
        q, k, v = z.split([keys, keys, self.v_proj.out_features], -1)
        return (
            q.unflatten(-1, (heads, -1)),
            k.unflatten(-1, (heads, -1)),
            v.unflatten(-1, (heads, -1)),
        )

    @override
    def output(
        self, o: Float[Tensor, "b t h v"], x: Float[Tensor, "b t d"]
    ) -> Float[Tensor, "b t d"]:
        y: Tensor = self.o_proj(self.g_norm_swish_gate.gated(o, self.g_proj(x), x.dtype, "silu"))
        return y

    @override
    def initialise(self, generator: torch.Generator, std: float) -> None:
        super().initialise(generator, std)
        for module in self.children():
            if isinstance(module, ShortConvolution):
                module.initialise(generator)
