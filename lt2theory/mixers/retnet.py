"""RetNet: linear attention with a fixed decay a head (Sun et al., arXiv 2307.08621)."""

import torch
from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from lt2theory.mixers.options import MixerOptions
from lt2theory.mixers.retention import RetentionMixer
from lt2theory.mixers.rotary import rotate_factors
from lt2theory.mixers.stream import Slot, Stream
from lt2theory.ops.factors import Factors


class RetNet(RetentionMixer):
    """`S_t = gamma_h S_{t-1} + k v^T` with `gamma_h = 1 - 2^(-5-h)`; q and k are rotated.

    The rotation by position is retention's complex decay (section 2.1 of the paper), so it is
    there whatever the positions of softmax layers, unless `linear_rotation` switches it off; its
    base is `rope_base`, or 10000 without one. Positions count from the start of each segment.
    `head_dim` is even.

    Parameter names of FLA's `MultiScaleRetention` (`RetentionMixer` says which options are not
    carried). FLA takes the log of a rounded gamma, which is 0 in float32 from head 20 on; here
    it is `log1p(-2^(-5-h))`.
    """

    def __init__(self, options: MixerOptions) -> None:
        super().__init__(options)
        if options.head_dim % 2:
            raise ValueError(f"head_dim: {options.head_dim} must be even for retnet's rotation")

    @override
    def prepare(
        self, x: Float[Tensor, "b t d"], stream: Stream, slot: Slot | None = None
    ) -> Factors:
        q, k, v = self.project(x, stream, slot)
        head = torch.arange(self.options.num_heads, device=x.device, dtype=q.dtype)
        log_decay = torch.log1p(-torch.exp2(-5.0 - head)).expand(*x.shape[:2], 1, -1)
        factors = Factors(q, k.unsqueeze(2), v.unsqueeze(2), log_decay=log_decay)
        return rotate_factors(factors, stream, self.options, own=True)
