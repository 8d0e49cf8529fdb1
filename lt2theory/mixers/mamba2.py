"""Mamba2: a scalar decay from data whose time step also scales the write (arXiv 2405.21060)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from lt2theory.mixers.base import LinearMixer, at_least_float32
from lt2theory.mixers.initialise import decay_rate_, time_step_bias_
from lt2theory.mixers.norm import RMSNorm
from lt2theory.mixers.options import MixerOptions
from lt2theory.mixers.rotary import rotate_factors
from lt2theory.mixers.short_conv import ShortConvolution, short_convolution
from lt2theory.mixers.stream import Slot, Stream
from lt2theory.ops.factors import Factors


class Mamba2(LinearMixer):
    """`S_t = exp(dt A) S_{t-1} + dt B x^T`, `y_t = S_t^T C + D x`: one A, D and dt a head.

    `dt = softplus(. + dt_bias)` and `A = -exp(A_log)` (state-space duality, sections 2 and 7 of
    the paper). In the words of the op: q = C and k = B, which all heads share, v = x, write = dt,
    scale = 1, skip = D. The output is `norm(y * silu(z))`, normalised over all heads together.

    Parameter names of FLA's `Mamba2` with one group: `in_proj` (z, x, B, C, dt), `conv1d` with a
    bias over x, B and C, `dt_bias`, `A_log`, `D`, `norm`, `out_proj`. Our `head_dim` is its
    `state_size`, our `value_dim` its `head_dim`, and `num_heads * value_dim` its `expand * width`.
    Without a convolution (`conv_width` 0, which FLA does not have) the silu stays. Not carried:
    `n_groups` above 1, `use_bias`, `use_conv_bias=False`, `conv_init`, `hidden_act`, `dt_limit`,
    `D_has_hdim`, `rmsnorm=False` and `norm_before_gate`.
    """

    def __init__(self, options: MixerOptions) -> None:
        super().__init__(options)
        heads, inner = options.num_heads, options.num_heads * options.value_dim
        convolved = inner + 2 * options.head_dim
        self.in_proj = nn.Linear(options.width, inner + convolved + heads, bias=False)
        if options.conv_width:
            self.conv1d = ShortConvolution(convolved, options.conv_width, bias=True)
        self.dt_bias = nn.Parameter(torch.zeros(heads))
        self.A_log = nn.Parameter(torch.zeros(heads))
        self.D = nn.Parameter(torch.ones(heads))
        self.norm = RMSNorm(inner, options.norm_eps)
        self.out_proj = nn.Linear(inner, options.width, bias=False)

    @override
    def prepare(
        self, x: Float[Tensor, "b t d"], stream: Stream, slot: Slot | None = None
    ) -> Factors:
        heads, width = self.options.num_heads, self.options.head_dim
        inner = heads * self.options.value_dim
        # The first rows of in_proj make the gate z, which `output` computes.
        z = at_least_float32(F.linear(x, self.in_proj.weight[inner:]))
        z, raw_step = z.split([inner + 2 * width, heads], -1)
        if self.options.conv_width:
            z = short_convolution(z, self.conv1d.weight, stream, slot, bias=self.conv1d.bias)
        v, b, c = F.silu(z).split([inner, width, width], -1)
        step = F.softplus(raw_step + self.dt_bias).unsqueeze(2)
        shared = (*x.shape[:2], heads, width)
        factors = Factors(
            c.unsqueeze(2).expand(shared),
            b.unsqueeze(2).expand(shared).unsqueeze(2),
            v.unflatten(-1, (heads, -1)).unsqueeze(2),
            log_decay=-at_least_float32(self.A_log).exp() * step,
            write=step,
            scale=1.0,
            skip=at_least_float32(self.D),
        )
        return rotate_factors(factors, stream, self.options)

    @override
    def output(
        self, o: Float[Tensor, "b t h v"], x: Float[Tensor, "b t d"]
    ) -> Float[Tensor, "b t d"]:
        inner = self.out_proj.in_features
        gate = F.silu(at_least_float32(F.linear(x, self.in_proj.weight[:inner])))
        y: Tensor = self.out_proj(self.norm(o.flatten(-2) * gate).to(x.dtype))
        return y

    @override
    def initialise(self, generator: torch.Generator, std: float) -> None:
        super().initialise(generator, std)
        decay_rate_(self.A_log, generator, low=1.0)
        time_step_bias_(self.dt_bias, generator)
        nn.init.ones_(self.D)
        if self.options.conv_width:
            self.conv1d.initialise(generator)
