"""What a cache holds and how one call advances it."""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from lt2theory.mixers import Slot
from lt2theory.models.arguments import check_whole
from lt2theory.models.cache_bytes import Place, bytes_by_place, size_of
from lt2theory.models.config import LoopedConfig
from lt2theory.models.snapshots import Slots, Snapshot, take_snapshot

BOOKKEEPING = ("segments", "documents", "num_segments", "next_position", "tokens")
"""The fields that hold a tensor beside the slots and snapshots; rows come first in all of them."""


@dataclass
class CacheContents:
    """What a model remembers of the tokens so far.

    Attributes:
        config: Config of the model that made it.
        model_id: Identity of the model that made it.
        batch_size: Rows.
        device: Device of the model.
        dtype: Dtype of the model's parameters.
        snapshot_every: Tokens from one snapshot to the next, or None for no snapshots.
        length: Tokens seen so far, padding included.
        slots: One slot a (layer, loop).
        segments: Segments of the last cached tokens `[b m]`, kept only once they are in use, and
            only as many as the widest window or convolution looks back (all of them with
            snapshots).
        documents: Document ids of the same tokens `[b m]`.
        num_segments: Segments and paddings begun so far `[b]`, where segments are in use.
        next_position: Position of the next token `[b]`, where segments are in use.
        tokens: All tokens so far `[b length]`, with snapshots only: `crop` computes from them.
        snapshots: In the order of their lengths, the multiples of `snapshot_every`.
    """

    config: LoopedConfig
    model_id: str
    batch_size: int
    device: torch.device
    dtype: torch.dtype
    snapshot_every: int | None = None
    length: int = 0
    slots: Slots = field(default_factory=dict)
    segments: Tensor | None = None
    documents: Tensor | None = None
    num_segments: Tensor | None = None
    next_position: Tensor | None = None
    tokens: Tensor | None = None
    snapshots: list[Snapshot] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.slots:
            return
        check_whole("batch_size", self.batch_size)
        if self.snapshot_every is not None:
            check_whole("snapshot_every", self.snapshot_every)
        for layer in range(self.config.num_layers):
            for loop in range(self.config.num_loops):
                self.slots[layer, loop] = Slot()

    def num_bytes(self) -> int:
        """Count what the cache holds.

        Returns:
            Bytes of all its tensors, snapshots and bookkeeping included.
        """
        places = self.bytes_by_layer().values()
        bookkeeping = size_of(getattr(self, name) for name in BOOKKEEPING)
        return bookkeeping + sum(sum(kinds.values()) for kinds in places)

    def bytes_by_layer(self) -> dict[Place, dict[str, int]]:
        """Count what each (layer, loop) holds (claim C2); the bookkeeping belongs to none.

        Returns:
            Bytes of the kinds `keys` (keys and values), `index_keys`, `state`, `convolution` and
            `snapshots`, zero where there is nothing of the kind.
        """
        return bytes_by_place(self.slots, self.snapshots)

    def working_slots(self) -> Slots:
        """Copy the slots, not their tensors; a slot in two places stays one.

        Returns:
            Slots with the same tensors.
        """
        copies = {id(slot): replace(slot) for slot in self.slots.values()}
        return {place: copies[id(slot)] for place, slot in self.slots.items()}

    def keep(self, draft: "CacheContents") -> None:
        """Take over what a finished call or edit left in its draft.

        Args:
            draft: What `draft` gave.
        """
        vars(self).update(vars(draft))

    def read(self, tokens: Tensor) -> None:
        """Note tokens that the slots and the bookkeeping have just taken in.

        Args:
            tokens: Token ids `[b t]`, up to a multiple of `snapshot_every` at most.
        """
        if self.snapshot_every is None or tokens.shape[1] == 0:
            return
        new = tokens.to(torch.int64)
        self.tokens = new.clone() if self.tokens is None else torch.cat([self.tokens, new], 1)
        if self.length % self.snapshot_every == 0:
            self.snapshots.append(take_snapshot(self.config, self.slots, self.length))

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
