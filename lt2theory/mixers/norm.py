"""Normalisations, computed in at least float32."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from lt2theory.mixers.base import at_least_float32
from lt2theory.ops.fused.add_norm import add_rms_norm
from lt2theory.ops.fused.gated_norm import Activation, gated_rms_norm
from lt2theory.ops.fused.norm import rms_norm


class RMSNorm(nn.Module):
    """`x / rms(x) * weight` over the last axis; computed in at least float32."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(
        self, x: Float[Tensor, "*rest d"], dtype: torch.dtype | None = None
    ) -> Float[Tensor, "*rest d"]:
        """Normalise.

        Args:
            x: Any float tensor whose last axis is the width.
            dtype: Of the result; None is that of x.

        Returns:
            The same shape.
        """
        return rms_norm(x, self.weight, self.eps, dtype)

    def of_sum(
        self, h: Float[Tensor, "*rest d"], change: Float[Tensor, "*rest d"], dtype: torch.dtype
    ) -> tuple[Float[Tensor, "*rest d"], Float[Tensor, "*rest d"]]:
        """Add, and normalise the sum.

        Args:
            h: Residual stream.
            change: What is added to it.
            dtype: Of the normalised sum.

        Returns:
            The sum, and the normalised sum.
        """
        return add_rms_norm(h, change, self.weight, self.eps, dtype)

    def gated(
        self,
        o: Float[Tensor, "*rest h v"],
        gate: Float[Tensor, "*rest n"],
        dtype: torch.dtype,
        activation: Activation,
    ) -> Float[Tensor, "*rest n"]:
        """Normalise every head and open its gate.

        Args:
            o: What the heads read out.
            gate: The gates of all heads side by side, before their activation.
            dtype: Of the result.
            activation: What the gates pass through.

        Returns:
            The heads side by side.
        """
        return gated_rms_norm(o, gate, self.weight, self.eps, dtype, activation)


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
