"""What a cache costs, by place and by kind."""

from collections.abc import Iterable

from torch import Tensor

from lt2theory.models.snapshots import Slots, Snapshot

Place = tuple[int, int]

KINDS = {
    "keys": "keys",
    "values": "keys",
    "index_keys": "index_keys",
    "state": "state",
    "log_max": "state",
    "conv": "convolution",
}
"""Kind of every field of a slot; a field that is not named here is a kind of its own."""


def size_of(tensors: Iterable[Tensor | None]) -> int:
    """Count bytes.

    Args:
        tensors: Any tensors; None counts nothing.

    Returns:
        Bytes of their entries.
    """
    return sum(x.numel() * x.element_size() for x in tensors if x is not None)


def bytes_by_place(slots: Slots, snapshots: list[Snapshot]) -> dict[Place, dict[str, int]]:
    """Count what slots and snapshots hold; a tensor held by both counts in the slots.

    Args:
        slots: Slots by (layer, loop).
        snapshots: Snapshots of them.

    Returns:
        For each (layer, loop) the bytes of every kind: `keys` (keys and values of an attention),
        `index_keys` (of its indexer), `state` (matrix state and stabiliser), `convolution` and
        `snapshots`.
    """
    counted: dict[Place, dict[str, int]] = {}
    seen: set[int] = set()
    for place, slot in slots.items():
        row = dict.fromkeys([*KINDS.values(), "snapshots"], 0)
        for name, x in slot.tensors().items():
            kind = KINDS.get(name, name)
            row[kind] = row.get(kind, 0) + size_of([x])
            seen.add(id(x))
        counted[place] = row
    for snapshot in snapshots:
        for place, slot in snapshot.slots.items():
            new = [x for x in slot.tensors().values() if id(x) not in seen]
            counted[place]["snapshots"] += size_of(new)
            seen.update(map(id, new))
    return counted
