"""HGRN2: a decay a channel, and one minus it for a key (Qin et al., arXiv 2404.07904)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from lt2theory.mixers.base import LinearMixer, at_least_float32
from lt2theory.mixers.norm import RMSNorm
from lt2theory.mixers.options import MixerOptions
from lt2theory.mixers.rotary import rotate_factors
from lt2theory.mixers.short_conv import ShortConvolution, short_convolution
from lt2theory.mixers.stream import Slot, Stream
from lt2theory.ops.factors import Factors


class HGRN2(LinearMixer):
    """`S_t = diag(alpha) S_{t-1} + (1 - alpha) v^T` with `alpha = sigmoid(x W_f)`.

    Section 3.2 of the paper: the forget gate's complement is the key. Parameter names of FLA's
    `HGRN2Attention`: `q_proj`, `f_proj` (gate), `i_proj` (values), `{q,f,i}_conv1d.weight`,
    `g_norm`, `o_proj`; `head_dim` is its `expand_ratio`, and `value_dim` there is always
    `width / num_heads`. The norm runs over all heads together, with no gate behind it. As in FLA
    the convolution has no activation, and q passes a silu with or without it. Not carried:
    `conv_bias`, and the `lower_bound` of alpha that FLA's model passes to the layers above the
    first (its loops would need one bound a layer and loop). FLA's layer normalises with an
    epsilon of 1e-5 whatever its `norm_eps`.
    """

    def __init__(self, options: MixerOptions) -> None:
        super().__init__(options)
        keys = options.num_heads * options.head_dim
        values = options.num_heads * options.value_dim
        self.q_proj = nn.Linear(options.width, keys, bias=False)
        self.f_proj = nn.Linear(options.width, keys, bias=False)
        self.i_proj = nn.Linear(options.width, values, bias=False)
        if options.conv_width:
            self.q_conv1d = ShortConvolution(keys, options.conv_width)
            self.f_conv1d = ShortConvolution(keys, options.conv_width)
            self.i_conv1d = ShortConvolution(values, options.conv_width)
        self.g_norm = RMSNorm(values, options.norm_eps)
        self.o_proj = nn.Linear(values, options.width, bias=False)

    @override
    def prepare(
        self, x: Float[Tensor, "b t d"], stream: Stream, slot: Slot | None = None
    ) -> Factors:
        z = at_least_float32(torch.cat([self.q_proj(x), self.f_proj(x), self.i_proj(x)], -1))
        if self.options.conv_width:
            convs = (self.q_conv1d, self.f_conv1d, self.i_conv1d)
            z = short_convolution(z, torch.cat([c.weight for c in convs]), stream, slot)
        keys, heads = self.q_proj.out_features, self.options.num_heads
        q, f, v = z.split([keys, keys, self.i_proj.out_features], -1)
        f = f.unflatten(-1, (heads, -1)).unsqueeze(2)
        factors = Factors(
            F.silu(q).unflatten(-1, (heads, -1)),
            torch.sigmoid(-f),  # 1 - alpha, without cancellation where alpha is near one
            v.unflatten(-1, (heads, -1)).unsqueeze(2),
            log_decay=F.logsigmoid(f),
        )
        return rotate_factors(factors, stream, self.options)

    @override
    def output(
        self, o: Float[Tensor, "b t h v"], x: Float[Tensor, "b t d"]
    ) -> Float[Tensor, "b t d"]:
        y: Tensor = self.o_proj(self.g_norm(o.flatten(-2)).to(x.dtype))
        return y

    @override
    def initialise(self, generator: torch.Generator, std: float) -> None:
        super().initialise(generator, std)
        for module in self.children():
            if isinstance(module, ShortConvolution):
                module.initialise(generator)
