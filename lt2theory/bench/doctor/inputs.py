"""Inputs of an op, made by a mixer itself.

They depend on nothing but their sizes: weights and tokens are drawn on the CPU from one seed, the
mixer's own `prepare` runs in float64, and only its result is rounded and moved. So a decay, a gate
or a normalised key has the range that the mixer gives it, and every machine and backend gets the
same numbers.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from lt2theory.mixers import MIXERS, AttentionMixer, LinearMixer, MixerOptions, Stream
from lt2theory.models.config import LoopedConfig
from lt2theory.models.pattern import LayerSpec
from lt2theory.ops.factors import AttentionInputs, Factors

SEED = 0
BATCH = 2
NUM_HEADS = 2

Prepared = Factors | AttentionInputs

_Inputs = TypeVar("_Inputs", bound=Prepared)


def build_mixer(mixer: str, width: int) -> LinearMixer | AttentionMixer:
    """A mixer with random weights in float32.

    Args:
        mixer: A name in `MIXERS`.
        width: Key and value width of a head.

    Returns:
        The mixer, on the CPU; its projections keep the variance of their input, which reaches
        further into the gates' range than the small weights that training starts from.
    """
    options = _options(mixer, width)
    built = MIXERS[mixer](options)
    built.initialise(torch.Generator().manual_seed(SEED), options.width**-0.5)
    return built


def make_tokens(width: int, length: int) -> Tensor:
    """Normalised random tokens `[batch, length, model width]` in float64, on the CPU."""
    generator = torch.Generator().manual_seed(SEED + 1)
    size = (BATCH, length, NUM_HEADS * width)
    return torch.randn(size, generator=generator, dtype=torch.float64)


def make_stream(length: int, device: str = "cpu") -> Stream:
    """The positions of one unbroken stream."""
    return Stream(torch.arange(length, device=device).expand(BATCH, -1))


@torch.no_grad()
def prepare(mixer: str, *, width: int, length: int) -> Prepared:
    """What a mixer hands to its op.

    Args:
        mixer: A name in `MIXERS`.
        width: Key and value width of a head.
        length: Tokens.

    Returns:
        The inputs in float64, on the CPU.
    """
    built = build_mixer(mixer, width).double()
    return built.prepare(make_tokens(width, length), make_stream(length))


def cast(prepared: _Inputs, dtype: torch.dtype, device: str) -> _Inputs:
    """The same inputs, rounded and moved.

    Args:
        prepared: The inputs of an op.
        dtype: Their new dtype.
        device: Where they are to be.

    Returns:
        New inputs.
    """
    tensors = tensors_of(prepared)
    return with_tensors(prepared, {name: x.to(device, dtype) for name, x in tensors.items()})


def split(prepared: _Inputs, past: int) -> tuple[_Inputs, _Inputs]:
    """Cut off the first tokens.

    Args:
        prepared: The inputs of an op.
        past: Tokens to cut off.

    Returns:
        The inputs of the first tokens, and of the rest. The queries of the rest keep the keys of
        the first ones, as a cache does; those of a recurrence need its state.
    """
    tensors = tensors_of(prepared)
    kept = {"skip"} if isinstance(prepared, Factors) else {"k", "v", "index_k"}
    first = {n: x[:, :past] for n, x in tensors.items() if n != "skip"}
    rest = {n: x[:, past:] for n, x in tensors.items() if n not in kept}
    return with_tensors(prepared, first), with_tensors(prepared, rest)


def with_tensors(prepared: _Inputs, tensors: Mapping[str, Tensor]) -> _Inputs:
    """The same inputs with other tensors.

    Args:
        prepared: The inputs of an op.
        tensors: Values of its fields.

    Returns:
        New inputs.
    """
    changes: dict[str, Any] = dict(tensors)
    return replace(prepared, **changes)


def tensors_of(prepared: Prepared) -> dict[str, Tensor]:
    """The tensors among the inputs of an op, by name."""
    values = {field.name: getattr(prepared, field.name) for field in fields(prepared)}
    return {name: x for name, x in values.items() if isinstance(x, Tensor)}


def _options(mixer: str, width: int) -> MixerOptions:
    """A mixer's options at a head width: the model's defaults, and one key head for two queries."""
    config = LoopedConfig(
        width=NUM_HEADS * width, num_heads=NUM_HEADS, num_kv_heads=1, pattern=mixer
    )
    return config.mixer_options(LayerSpec(mixer))
