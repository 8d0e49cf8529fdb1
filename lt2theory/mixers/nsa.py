"""Native sparse attention (Yuan et al., arXiv 2502.11089)."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from lt2theory.mixers.base import at_least_float32
from lt2theory.mixers.options import MixerOptions
from lt2theory.mixers.softmax import SoftmaxAttention
from lt2theory.mixers.stream import Slot, Stream
from lt2theory.ops.factors import BlockSparseInputs


class NativeSparseAttention(SoftmaxAttention):
    """Compressed blocks, selected blocks and a window, weighted by `sigmoid(x W_g)` a head.

    Keys and values are shared by the three branches, blocks are pooled by their mean, and
    rotation comes before pooling, all as in FLA's `NativeSparseAttention`, whose parameter names
    these are: `q_proj`, `k_proj`, `v_proj`, `g_proj` (three numbers a head), `o_proj`. The output
    gate of the softmax family, which FLA's layer does not have, is `output_gate_proj` here.
    """

    def __init__(self, options: MixerOptions) -> None:
        super().__init__(replace(options, output_gate=False))
        self.options = options
        assert options.window is not None, "LoopedConfig gives every NSA layer a width"
        self._window = options.window
        self.g_proj = nn.Linear(options.width, 3 * options.num_heads, bias=False)
        if options.output_gate:
            values = options.num_heads * options.value_dim
            self.output_gate_proj = nn.Linear(options.width, values, bias=False)

    @property
    def window(self) -> int | None:
        """Tokens that the window branch sees, the query's own among them."""
        return self._window

    @property
    def output_gate(self) -> nn.Linear:
        """Projection of the output gate, where there is one."""
        return self.output_gate_proj

    @override
    def prepare(
        self, x: Float[Tensor, "b t d"], stream: Stream, slot: Slot | None = None
    ) -> BlockSparseInputs:
        plain = super().prepare(x, stream, slot)
        gates = torch.sigmoid(at_least_float32(self.g_proj(x)))
        return BlockSparseInputs(
            plain.q,
            plain.k,
            plain.v,
            window=self.window,
            gates=gates.unflatten(-1, (self.options.num_heads, 3)),
            block_size=self.options.block_size,
            num_blocks=self.options.num_blocks,
        )
