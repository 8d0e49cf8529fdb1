"""Buffers of fixed size for decoding: what a cache holds, at addresses that never change."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from lt2theory.mixers import MIXERS, LinearMixer, Slot, WindowAttention
from lt2theory.mixers.base import AttentionMixer
from lt2theory.models.cache import LoopCache
from lt2theory.models.config import LoopedConfig
from lt2theory.models.pattern import LayerSpec
from lt2theory.ops.fused.sparse_step import pooled_blocks

BY_POSITION = frozenset({"keys", "values", "index_keys"})
"""What grows with the text; a step writes it where its place is, not at the end of all."""


@dataclass
class StaticSlot:
    """What one mixer remembers in one loop, in place.

    Attributes:
        slot: The buffers under the names of `Slot`; keys and values have the capacity's length.
        ring: Whether place n of the keys holds the newest position with the remainder n (a
            window), rather than position n.
        pooled: Means of the blocks of NSA's keys and values, by name.
    """

    slot: Slot
    ring: bool = False
    pooled: dict[str, Tensor] = field(default_factory=dict)

    def load(self, held: Slot, length: int, first: Tensor) -> None:
        """Copy what a cache holds.

        Args:
            held: A slot of the cache.
            length: Tokens that the cache has seen.
            first: First real position of every row `[b]`.
        """
        for name, buffer in self.slot.tensors().items():
            source = getattr(held, name)
            if name == "conv":
                # A step knows no segments: padding and earlier documents must read as nothing.
                places = torch.arange(length - source.shape[1], length, device=buffer.device)
                source = source.masked_fill((places < first[:, None])[..., None], 0.0)
            if name not in BY_POSITION:
                buffer.copy_(source)
                continue
            count, capacity = source.shape[1], buffer.shape[1]
            places = torch.arange(length - count, length, device=buffer.device)
            places = places % capacity if self.ring else places
            buffer.index_copy_(1, places, source.to(buffer.dtype))

    def keep(self, worked: Slot) -> None:
        """Copy what a step left in its working slot into the buffers; keys are there already.

        Args:
            worked: The working slot.
        """
        for name, buffer in self.slot.tensors().items():
            if name not in BY_POSITION:
                buffer.copy_(getattr(worked, name))


def capacity_of(config: LoopedConfig, spec: LayerSpec, capacity: int) -> int:
    """Keys that a layer's buffer holds.

    Args:
        config: The model's config.
        spec: What the layer is, in one loop.
        capacity: Tokens that the stream may have.

    Returns:
        The window for a window layer, if that is less, and the capacity for others.
    """
    window = config.mixer_options(spec).window
    if window is None or not issubclass(MIXERS[spec.mixer], WindowAttention):
        return capacity
    return min(window, capacity)


def new_buffers(
    config: LoopedConfig, cache: LoopCache, capacity: int, first: Tensor
) -> dict[tuple[int, int], StaticSlot]:
    """Buffers for every (layer, loop), with what a cache holds.

    Args:
        config: The model's config.
        cache: A cache of the model that has read at least one token: the buffers get its shapes
            and what it holds.
        capacity: Tokens that the stream may have.
        first: First real position of every row `[b]`.

    Returns:
        The buffers.
    """
    buffers: dict[tuple[int, int], StaticSlot] = {}
    for (layer, loop), held in cache.slots.items():
        place, spec = (layer, loop), config.loops[loop][layer]
        mixer = MIXERS[spec.mixer]
        assert issubclass(mixer, LinearMixer | AttentionMixer)
        long = capacity_of(config, spec, capacity)
        made = {name: _buffer(name, source, long) for name, source in held.tensors().items()}
        buffers[place] = StaticSlot(Slot(**made), ring=issubclass(mixer, WindowAttention))
        buffers[place].load(held, cache.length, first)
        if spec.mixer == "nsa":
            buffers[place].pooled = {
                f"pooled_{name}": pooled_blocks(made[name], first, config.block_size)
                for name in ("keys", "values")
            }
    return buffers


def _buffer(name: str, like: Tensor, capacity: int) -> Tensor:
    if name in BY_POSITION:
        return like.new_zeros(like.shape[0], capacity, *like.shape[2:])
    return torch.zeros_like(like)
