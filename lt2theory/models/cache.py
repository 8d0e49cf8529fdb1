"""The cache of a looped model: one slot a (layer, loop).

Weight sharing does not share state: under `rescan` and `accumulate` streaming equals the parallel
form exactly when every loop of every layer keeps its own convolution history and matrix state, or
its own keys and values (claim L5; LT2's public code keeps one
cache a layer).
"""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from lt2theory.mixers import Slot
from lt2theory.models.config import LoopedConfig


@dataclass
class LoopCache:
    """What a model remembers of the tokens so far; made by `LoopedModel.new_cache`.

    Attributes:
        config: Config of the model that made it.
        model_id: Identity of the model that made it.
        batch_size: Rows.
        device: Device of the model.
        dtype: Dtype of the model's parameters.
        length: Tokens seen so far, padding included.
        slots: One slot a (layer, loop).
        segments: Segments of the last cached tokens `[b m]`, kept only once they are in use, and
            only as many as the widest window or convolution looks back.
        documents: Document id of the last token `[b]`, where segments are in use.
        num_segments: Segments and paddings begun so far `[b]`, where segments are in use.
        next_position: Position of the next token `[b]`, where segments are in use.
    """

    config: LoopedConfig
    model_id: str
    batch_size: int
    device: torch.device
    dtype: torch.dtype
    length: int = 0
    slots: dict[tuple[int, int], Slot] = field(default_factory=dict)
    segments: Tensor | None = None
    documents: Tensor | None = None
    num_segments: Tensor | None = None
    next_position: Tensor | None = None

    def __post_init__(self) -> None:
        for layer in range(self.config.num_layers):
            for loop in range(self.config.num_loops):
                self.slots[layer, loop] = Slot()

    def num_bytes(self) -> int:
        """Count what the cache holds.

        Returns:
            Bytes of all its tensors.
        """
        own = (self.segments, self.documents, self.num_segments, self.next_position)
        bookkeeping = sum(x.numel() * x.element_size() for x in own if x is not None)
        return bookkeeping + sum(slot.num_bytes() for slot in self.slots.values())

    def working_slots(self) -> dict[tuple[int, int], Slot]:
        """Copy the slots for one call, which may still fail; a slot in two places stays one.

        Returns:
            Slots with the same tensors, to be updated by the call and then handed to `keep`.
        """
        copies = {id(slot): replace(slot) for slot in self.slots.values()}
        return {place: copies[id(slot)] for place, slot in self.slots.items()}

    def keep(self, slots: dict[tuple[int, int], Slot]) -> None:
        """Take over what a finished call left in its working slots.

        Args:
            slots: What `working_slots` gave.
        """
        self.slots = slots

    def check(
        self, tokens: Tensor, config: LoopedConfig, model_id: str, dtype: torch.dtype
    ) -> None:
        """Refuse a cache that another model, batch or dtype made.

        Args:
            tokens: The tokens about to be fed.
            config: The model's config.
            model_id: The model's identity.
            dtype: The dtype of the model's parameters.

        Raises:
            ValueError: Something differs; the message names it.
        """
        if config != self.config:
            raise ValueError("cache: it was made by a model with another config; use new_cache")
        if model_id != self.model_id:
            raise ValueError("cache: it was made by another model of this config; use new_cache")
        if tokens.shape[0] != self.batch_size:
            raise ValueError(
                f"cache: made for batch size {self.batch_size}, got tokens of {tokens.shape[0]}"
            )
        if dtype != self.dtype:
            raise ValueError(f"cache: made for dtype {self.dtype}, the model is now {dtype}")
        if tokens.device != self.device:
            raise ValueError(f"cache: made on {self.device}, got tokens on {tokens.device}")
