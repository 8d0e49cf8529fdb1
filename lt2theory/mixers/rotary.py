"""Rotary positions (Su et al., arXiv 2104.09864), halves rotated as in Llama."""

import math
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lt2theory.mixers.base import at_least_float32
from lt2theory.mixers.options import MixerOptions, RopeScaling
from lt2theory.mixers.stream import Stream
from lt2theory.ops.factors import Factors

_BASE = 10000.0
"""Base of a linear mixer's rotation where the options give none."""


def rotate(
    x: Float[Tensor, "b t h k"],
    positions: Int[Tensor, "b t"],
    base: float,
    scaling: RopeScaling | None = None,
) -> Float[Tensor, "b t h k"]:
    """Turn each pair of coordinates `(i, i + k/2)` by `position * base ** (-2 i / k)`.

    Args:
        x: Queries or keys; k is even.
        positions: Position of each token.
        base: Base of the wavelengths.
        scaling: How the wavelengths are stretched; None for not at all.

    Returns:
        The same shape and dtype; the angles are computed in at least float32.
    """
    half = x.shape[-1] // 2
    wide = at_least_float32(x)
    exponents = torch.arange(half, device=x.device, dtype=wide.dtype) / half
    turns = base**-exponents
    if scaling is not None:
        turns = stretched(turns, scaling)
    angles = positions.to(wide.dtype).unsqueeze(-1) * turns
    cos, sin = angles.cos().unsqueeze(2), angles.sin().unsqueeze(2)
    first, second = wide[..., :half], wide[..., half:]
    turned = torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
    return turned.to(x.dtype)


def stretched(turns: Float[Tensor, " half"], scaling: RopeScaling) -> Float[Tensor, " half"]:
    """Slow the turns down for contexts longer than those of training.

    `linear` divides all of them by the factor (arXiv 2306.15595). `llama3` keeps those that turn
    at least `high` times within the original length, divides those that turn at most `low` times,
    and goes from one to the other in proportion (Llama 3.1, arXiv 2407.21783, as published with
    its weights).

    Args:
        turns: Angle of every pair from one token to the next.
        scaling: How.

    Returns:
        The new angles.
    """
    if scaling.kind == "linear":
        return turns / scaling.factor
    within = scaling.original_length * turns / (2 * math.pi)
    kept = ((within - scaling.low) / (scaling.high - scaling.low)).clamp(0.0, 1.0)
    return turns * (kept + (1.0 - kept) / scaling.factor)


def rotate_factors(
    factors: Factors, stream: Stream, options: MixerOptions, *, own: bool = False
) -> Factors:
    """Rotate queries and keys of a linear mixer, where its options ask for it.

    Lengths stay, so unit keys stay unit keys. Beside decays of their own for the two channels of a
    pair the product of a query and a key is no function of their distance alone.

    Args:
        factors: What the mixer prepared.
        stream: Positions of its tokens.
        options: Options of the mixer.
        own: Whether it rotates by its definition.

    Returns:
        The factors, the very same object where nothing is rotated.
    """
    if options.linear_rotation == "off" or (options.linear_rotation == "own" and not own):
        return factors
    base = _BASE if options.rope_base is None else options.rope_base
    q = rotate(factors.q, stream.positions, base, options.rope_scaling)
    k = rotate(factors.k.flatten(2, 3), stream.positions, base, options.rope_scaling)
    return replace(factors, q=q, k=k.unflatten(2, factors.k.shape[2:4]))
