"""Rotary positions (Su et al., arXiv 2104.09864), halves rotated as in Llama."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lt2theory.mixers.base import at_least_float32


def rotate(
    x: Float[Tensor, "b t h k"], positions: Int[Tensor, "b t"], base: float
) -> Float[Tensor, "b t h k"]:
    """Turn each pair of coordinates `(i, i + k/2)` by `position * base ** (-2 i / k)`.

    Args:
        x: Queries or keys; k is even.
        positions: Position of each token.
        base: Base of the wavelengths.

    Returns:
        The same shape and dtype; the angles are computed in at least float32.
    """
    half = x.shape[-1] // 2
    wide = at_least_float32(x)
    exponents = torch.arange(half, device=x.device, dtype=wide.dtype) / half
    angles = positions.to(wide.dtype).unsqueeze(-1) * base**-exponents
    cos, sin = angles.cos().unsqueeze(2), angles.sin().unsqueeze(2)
    first, second = wide[..., :half], wide[..., half:]
    turned = torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
    return turned.to(x.dtype)
