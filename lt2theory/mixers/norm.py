"""Normalisations, computed in at least float32."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from lt2theory.mixers.base import at_least_float32


class RMSNorm(nn.Module):
    """`x / rms(x) * weight` over the last axis; the result has the dtype of `x`."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*rest d"]) -> Float[Tensor, "*rest d"]:
        """Normalise.

        Args:
            x: Any float tensor whose last axis is the width.

        Returns:
            The same shape and dtype.
        """
        wide = at_least_float32(x)
        return F.rms_norm(wide, self.weight.shape, self.weight.to(wide.dtype), self.eps).to(x.dtype)


class MultiHeadLayerNorm(nn.Module):
    """`(x - mean(x)) / std(x) * weight` in every head by itself; the result has the dtype of `x`.

    The weights of all heads lie side by side in `weight`, as in the public xLSTM code.
    """

    def __init__(self, num_heads: int, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(num_heads * width))
        self.eps = eps

    def forward(self, x: Float[Tensor, "*rest h v"]) -> Float[Tensor, "*rest h v"]:
        """Normalise.

        Args:
            x: What the heads read out.

        Returns:
            The same shape and dtype.
        """
        wide = at_least_float32(x)
        weight = self.weight.to(wide.dtype).view(x.shape[-2:])
        return (F.layer_norm(wide, x.shape[-1:], eps=self.eps) * weight).to(x.dtype)


def unit(x: Float[Tensor, "*rest k"]) -> Float[Tensor, "*rest k"]:
    """`x / sqrt(|x|^2 + 1e-6)`: FLA's normalisation of queries and keys.

    Args:
        x: Vectors along the last axis.

    Returns:
        Vectors of length one (shorter only where `|x|` is near 1e-3 or less).
    """
    return x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)
