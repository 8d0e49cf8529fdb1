"""Rotary positions (Su et al., arXiv 2104.09864), halves rotated as in Llama."""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def rotate(
    x: Float[Tensor, "b t h k"], positions: Int[Tensor, "b t"], base: float
) -> Float[Tensor, "b t h k"]:
    """Turn each pair of coordinates `(i, i + k/2)` by `position * base ** (-2 i / k)`.

    Args:
        x: Queries or keys; k is even.
        positions: Position of each token.
        base: Base of the wavelengths.

    Returns:
        The same shape and dtype.
    """
    half = x.shape[-1] // 2
    exponents = torch.arange(half, device=x.device, dtype=x.dtype) / half
    angles = positions.to(x.dtype).unsqueeze(-1) * base**-exponents
    cos, sin = angles.cos().unsqueeze(2), angles.sin().unsqueeze(2)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
