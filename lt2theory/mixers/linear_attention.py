"""Linear attention (Katharopoulos et al., arXiv 2006.16236) with a Hadamard feature map."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from lt2theory.mixers.base import LinearMixer, at_least_float32
from lt2theory.mixers.initialise import uniform_
from lt2theory.mixers.norm import RMSNorm
from lt2theory.mixers.options import MixerOptions
from lt2theory.mixers.rotary import rotate_factors
from lt2theory.mixers.stream import Slot, Stream
from lt2theory.ops.factors import Factors


class HadamardFeatureMap(nn.Module):
    """`(x W_1 + b_1) * (x W_2 + b_2)`: products of coordinates, of either sign."""

    def __init__(self, head_dim: int) -> None:
        super().__init__()
        self.layer1 = nn.Linear(head_dim, head_dim)
        self.layer2 = nn.Linear(head_dim, head_dim)

    def forward(self, x: Float[Tensor, "*rest k"]) -> Float[Tensor, "*rest k"]:
        """Map each head's vector.

        Args:
            x: Vectors along the last axis.

        Returns:
            The same shape, in at least float32.
        """
        y: Tensor = at_least_float32(self.layer1(x)) * at_least_float32(self.layer2(x))
        return y


class LinearAttention(LinearMixer):
    """`S_t = S_{t-1} + k v^T`: no decay, no erasure, no convolution.

    Unnormalised (no division by the sum of keys), with an RMS norm on the read-out. Where
    `linear_rotation` is on, it comes after the feature map.
    Parameter names of FLA's `LinearAttention` with its defaults.
    """

    def __init__(self, options: MixerOptions) -> None:
        super().__init__(options)
        keys = options.num_heads * options.head_dim
        values = options.num_heads * options.value_dim
        self.feature_map_q = HadamardFeatureMap(options.head_dim)
        self.feature_map_k = HadamardFeatureMap(options.head_dim)
        self.q_proj = nn.Linear(options.width, keys, bias=False)
        self.k_proj = nn.Linear(options.width, keys, bias=False)
        self.v_proj = nn.Linear(options.width, values, bias=False)
        self.norm = RMSNorm(options.value_dim, options.norm_eps)
        self.o_proj = nn.Linear(values, options.width, bias=False)

    @override
    def prepare(
        self, x: Float[Tensor, "b t d"], stream: Stream, slot: Slot | None = None
    ) -> Factors:
        heads = self.options.num_heads
        q = self.feature_map_q(self.q_proj(x).unflatten(-1, (heads, -1)))
        k = self.feature_map_k(self.k_proj(x).unflatten(-1, (heads, -1)))
        v = self.v_proj(x).unflatten(-1, (heads, -1))
        factors = Factors(q, k.unsqueeze(2), at_least_float32(v).unsqueeze(2))
        return rotate_factors(factors, stream, self.options)

    @override
    def output(
        self, o: Float[Tensor, "b t h v"], x: Float[Tensor, "b t d"]
    ) -> Float[Tensor, "b t d"]:
        y: Tensor = self.o_proj(self.norm(o).flatten(-2).to(x.dtype))
        return y

    @override
    def initialise(self, generator: torch.Generator, std: float) -> None:
        super().initialise(generator, std)
        bound = 1 / math.sqrt(self.options.head_dim)
        for feature_map in (self.feature_map_q, self.feature_map_k):
            for parameter in feature_map.parameters():
                uniform_(parameter, -bound, bound, generator)
