"""The mLSTM of xLSTM: exponential input gates and a normaliser (Beck et al., arXiv 2405.04517)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from lt2theory.mixers.base import LinearMixer, at_least_float32
from lt2theory.mixers.initialise import truncated_normal_
from lt2theory.mixers.norm import MultiHeadLayerNorm
from lt2theory.mixers.options import MixerOptions
from lt2theory.mixers.rotary import rotate_factors
from lt2theory.mixers.stream import Slot, Stream
from lt2theory.ops.factors import Factors


class MLSTM(LinearMixer):
    """`C_t = f C_{t-1} + e^i k v^T`, `n_t = f n_{t-1} + e^i k`, `o_t = C^T q / max(|n^T q|, 1)`.

    Both gates are one number a head: `f = sigmoid(x W_f + b_f)`, and the raw i is what the factors
    carry (`log_write`; `lt2theory.ops.normalised` stabilises it). The layer is that of xLSTM 7B
    (arXiv 2503.13427): no convolution, gates capped to `cap * tanh(z / cap)`, a layer norm a head,
    and a sigmoid output gate from the input. Its k scaled by `k ** -0.5` is the scale of the
    read-out here. Parameter names are those of the public xLSTM code with `weight_mode="single"`;
    its head widths are `qk_dim_factor` and `v_dim_factor` over the number of heads.

    Starting values are those of xLSTM's first code: gates that do not look at the input, with
    `b_f` from 3 to 6 over the heads and a small `b_i`.
    """

    def __init__(self, options: MixerOptions) -> None:
        super().__init__(options)
        width, heads = options.width, options.num_heads
        keys, values = heads * options.head_dim, heads * options.value_dim
        self.q = nn.Linear(width, keys, bias=False)
        self.k = nn.Linear(width, keys, bias=False)
        self.v = nn.Linear(width, values, bias=False)
        self.ogate_preact = nn.Linear(width, values, bias=False)
        self.igate_preact = nn.Linear(width, heads)
        self.fgate_preact = nn.Linear(width, heads)
        self.multihead_norm = MultiHeadLayerNorm(heads, options.value_dim, options.norm_eps)
        self.out_proj = nn.Linear(values, width, bias=False)

    @override
    def prepare(
        self, x: Float[Tensor, "b t d"], stream: Stream, slot: Slot | None = None
    ) -> Factors:
        heads = (1, self.options.num_heads, -1)
        factors = Factors(
            at_least_float32(self.q(x)).unflatten(-1, heads[1:]),
            at_least_float32(self.k(x)).unflatten(-1, heads),
            at_least_float32(self.v(x)).unflatten(-1, heads),
            log_decay=F.logsigmoid(self._capped(self.fgate_preact(x))),
            log_write=self._capped(self.igate_preact(x)),
        )
        return rotate_factors(factors, stream, self.options)

    def _capped(self, z: Float[Tensor, "b t h"]) -> Float[Tensor, "b t 1 h"]:
        z = at_least_float32(z).unsqueeze(2)
        cap = self.options.gate_soft_cap
        return z if cap is None else cap * torch.tanh(z / cap)

    @override
    def output(
        self, o: Float[Tensor, "b t h v"], x: Float[Tensor, "b t d"]
    ) -> Float[Tensor, "b t d"]:
        gate = torch.sigmoid(at_least_float32(self.ogate_preact(x)))
        y: Tensor = self.out_proj((self.multihead_norm(o).flatten(-2) * gate).to(x.dtype))
        return y

    @override
    def initialise(self, generator: torch.Generator, std: float) -> None:
        super().initialise(generator, std)
        bias = self.fgate_preact.bias
        with torch.no_grad():
            bias.copy_(torch.linspace(3.0, 6.0, len(bias), dtype=bias.dtype, device=bias.device))
        nn.init.zeros_(self.fgate_preact.weight)
        nn.init.zeros_(self.igate_preact.weight)
        truncated_normal_(self.igate_preact.bias, 0.1, generator)
