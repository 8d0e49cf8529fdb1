"""DeltaNet: the delta rule without decay (Yang et al., arXiv 2406.06484)."""

from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from lt2theory.mixers.delta import DeltaMixer
from lt2theory.mixers.norm import RMSNorm
from lt2theory.mixers.options import MixerOptions
from lt2theory.mixers.rotary import rotate_factors
from lt2theory.mixers.stream import Slot, Stream
from lt2theory.ops.factors import Factors


class DeltaNet(DeltaMixer):
    """`S_t = (I - beta k k^T) S_{t-1} + beta k v^T`; parameter names of FLA's `DeltaNet`."""

    def __init__(self, options: MixerOptions) -> None:
        super().__init__(options)
        self.o_norm = RMSNorm(options.value_dim, options.norm_eps)

    @override
    def prepare(
        self, x: Float[Tensor, "b t d"], stream: Stream, slot: Slot | None = None
    ) -> Factors:
        if self.fuses(x, slot):
            return rotate_factors(self.fused_factors(x, stream), stream, self.options)
        q, k, v = self.project(x, stream, slot)
        factors = Factors(q, k, v, beta=self.erase_strength(x))
        return rotate_factors(factors, stream, self.options)

    @override
    def output(
        self, o: Float[Tensor, "b t h v"], x: Float[Tensor, "b t d"]
    ) -> Float[Tensor, "b t d"]:
        y: Tensor = self.o_proj(self.o_norm(o, x.dtype).flatten(-2))
        return y
