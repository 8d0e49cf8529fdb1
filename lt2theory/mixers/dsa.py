"""DeepSeek sparse attention: attention to the tokens that a trained indexer scores highest.

Source: DeepSeek-V3.2-Exp's technical report (2025); arXiv 2512.02556, section 2. Keys and values
are laid out as in the softmax mixer (a key-value head each; one for all with `num_kv_heads=1`),
not compressed as in the report's MLA.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from typing_extensions import override

from lt2theory.mixers.base import at_least_float32
from lt2theory.mixers.options import MixerOptions
from lt2theory.mixers.rotary import rotate
from lt2theory.mixers.softmax import SoftmaxAttention
from lt2theory.mixers.stream import Slot, Stream
from lt2theory.ops.factors import IndexedInputs


class DeepSeekSparseAttention(SoftmaxAttention):
    """Softmax attention to the `top_k` past tokens with the highest index scores.

    `I_ts = sum_n w_tn relu(q_tn . k_s)` with `q = x W_q`, `k = LayerNorm(x W_k)` and
    `w = x W_w / sqrt(n i)` for n index heads of width i; the key norm and the scale are those of
    DeepSeek's published inference code. The indexer reads x as a constant and selection has no
    gradient: the language-model loss does not reach the indexer, and `indexer_loss` nothing else.
    """

    def __init__(self, options: MixerOptions) -> None:
        super().__init__(options)
        heads, width = options.index_heads, options.index_dim
        self.index_q_proj = nn.Linear(options.width, heads * width, bias=False)
        self.index_k_proj = nn.Linear(options.width, width, bias=False)
        self.index_k_norm = nn.LayerNorm(width, options.norm_eps)
        self.index_weight_proj = nn.Linear(options.width, heads, bias=False)

    @override
    def prepare(
        self, x: Float[Tensor, "b t d"], stream: Stream, slot: Slot | None = None
    ) -> IndexedInputs:
        attention = super().prepare(x, stream, slot)
        heads, width = self.options.index_heads, self.options.index_dim
        x = x.detach()
        q = self.index_q_proj(x).unflatten(-1, (heads, width))
        k = self._normalised(self.index_k_proj(x))
        if self.options.rope_base is not None:
            base, scaling = self.options.rope_base, self.options.rope_scaling
            q = rotate(q, stream.positions, base, scaling)
            k = rotate(k.unsqueeze(2), stream.positions, base, scaling).squeeze(2)
        return IndexedInputs(
            attention.q,
            attention.k,
            attention.v,
            index_q=q,
            index_k=k,
            index_weight=self.index_weight_proj(x) * (heads * width) ** -0.5,
            top_k=self.options.top_k,
        )

    def _normalised(self, k: Float[Tensor, "b t i"]) -> Float[Tensor, "b t i"]:
        """The key norm in at least float32, in the dtype of the keys."""
        wide, norm = at_least_float32(k), self.index_k_norm
        weight, bias = norm.weight.to(wide.dtype), norm.bias.to(wide.dtype)
        return F.layer_norm(wide, norm.normalized_shape, weight, bias, norm.eps).to(k.dtype)

    @override
    def initialise(self, generator: torch.Generator, std: float) -> None:
        super().initialise(generator, std)
        nn.init.ones_(self.index_k_norm.weight)
        nn.init.zeros_(self.index_k_norm.bias)
