"""Going back in a cache: what can be cut to fewer tokens, and what has to be kept from before.

The keys and values of an attention over the whole past hold one entry a token, so they are cut. A
matrix state and its stabiliser sum up all tokens, a convolution history and the keys of a window
have forgotten the older ones: of these the cache keeps snapshots, and recomputes from the nearest.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Int
from torch import Tensor

from lt2theory.mixers import MIXERS, AttentionMixer, Slot, WindowAttention
from lt2theory.models.config import LoopedConfig
from lt2theory.models.pattern import LayerSpec

Slots = dict[tuple[int, int], Slot]

PER_TOKEN = ("keys", "values", "index_keys")
"""Fields of a `Slot` with one entry a token; every other field sums up the past."""


@dataclass(frozen=True)
class Snapshot:
    """What no cut can bring back, as it was after some tokens.

    Attributes:
        length: Tokens seen by then, padding included.
        slots: By (layer, loop), the fields that the model's cache cannot cut; the tensors
            themselves, since no call writes into a tensor that a slot holds.
    """

    length: int
    slots: Slots


def is_cuttable(spec: LayerSpec) -> bool:
    """Whether the cache of a layer keeps an entry of every token, however long the stream.

    Args:
        spec: What the layer is, in one loop.

    Returns:
        True for attention over the whole past, False for windows and linear mixers.
    """
    mixer = MIXERS[spec.mixer]
    return issubclass(mixer, AttentionMixer) and not issubclass(mixer, WindowAttention)


def take_snapshot(config: LoopedConfig, slots: Slots, length: int) -> Snapshot:
    """Keep what `restore` needs beside the entries that can be cut.

    Args:
        config: The model's config.
        slots: The slots after `length` tokens.
        length: Tokens seen.

    Returns:
        The snapshot; it costs memory only once the slots move on.
    """
    without = dict.fromkeys(PER_TOKEN)
    kept = {
        (layer, loop): replace(slot, **without)
        if is_cuttable(config.loops[loop][layer])
        else replace(slot)
        for (layer, loop), slot in slots.items()
    }
    return Snapshot(length, kept)


def layers_in_the_way(slots: Slots, length: int) -> list[int]:
    """Layers that cannot be cut back without a snapshot.

    Args:
        slots: The slots after `length` tokens.
        length: Tokens seen.

    Returns:
        Layers, ascending. A window that still holds all tokens is not among them.
    """
    found = set()
    for (layer, _), slot in slots.items():
        for name, x in slot.tensors().items():
            if name not in PER_TOKEN or x.shape[1] != length:
                found.add(layer)
    return sorted(found)


def restore(slots: Slots, length: int, snapshot: Snapshot | None) -> Slots:
    """The slots as they were after fewer tokens.

    Args:
        slots: The slots now.
        length: Tokens to go back to.
        snapshot: One taken at `length`, or None where no layer is in the way.

    Returns:
        New slots; their tensors hold on to nothing that was cut.
    """
    if length == 0:
        return {place: Slot() for place in slots}
    if snapshot is None:
        return {place: replace(slot, **_cut(slot, length)) for place, slot in slots.items()}
    old = snapshot.slots
    return {
        # An empty field of the snapshot was left out because it is cut instead.
        place: replace(old[place], **{**_cut(slot, length), **old[place].tensors()})
        for place, slot in slots.items()
    }


def _cut(slot: Slot, length: int) -> dict[str, Tensor]:
    """The first `length` entries of every field that has one a token."""
    tensors = slot.tensors()
    return {name: tensors[name][:, :length].clone() for name in PER_TOKEN if name in tensors}


def segments_begun(segments: Int[Tensor, "b t"]) -> tuple[Int[Tensor, " b"], Int[Tensor, " b"]]:
    """How many segments and paddings a stream has begun, and where the last one goes on.

    Args:
        segments: Segment of every token since the stream began, at least one; -1 is padding.

    Returns:
        Their number, and the position of the next token in the last one; both `[b]`.
    """
    index = torch.arange(1, segments.shape[1], device=segments.device)
    starts = segments[:, 1:] != segments[:, :-1]
    last = (starts * index).amax(1) if index.numel() else torch.zeros_like(segments[:, 0])
    return starts.sum(1) + 1, segments.shape[1] - last
