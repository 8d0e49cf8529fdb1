"""Layer patterns: which mixer stands at which depth.

A pattern is a comma-separated list of mixer names, each with an optional window in parentheses
and an optional repeat count, cycled over the depth: `"gdn*4,full"` over 21 layers puts softmax
attention at layers 4, 9, 14 and 19, as LT2's 1.3B hybrid does. `"bookend:gdn*4,full"` puts softmax
attention first and last and cycles the rest between them.
"""

import re
from dataclasses import dataclass

from lt2theory.mixers import MIXERS

_ITEM = re.compile(r"(?P<name>[a-z0-9_]+)(?:\((?P<window>\d{1,9})\))?(?:\*(?P<count>\d{1,9}))?")
_BOOKEND = "bookend:"
LONGEST = 2**40
"""A longer window, block or list of keys is a slip: no text is that long."""
_MOST = 10_000
"""Most repeats of one item, so that a typing slip fills no memory."""


@dataclass(frozen=True)
class LayerSpec:
    """One layer's mixer.

    Attributes:
        mixer: Its name in `lt2theory.mixers.MIXERS`.
        window: The window written in the pattern, or None for the config's.
    """

    mixer: str
    window: int | None = None


def parse_pattern(pattern: str) -> tuple[LayerSpec, ...]:
    """Parse one cycle of a pattern.

    Args:
        pattern: For example `"gdn*4,full"` or `"window(8)"`, without a `bookend:` prefix.

    Returns:
        The layers of one cycle.

    Raises:
        ValueError: The pattern has an unknown mixer, a bad window or a bad count.
    """
    layers: list[LayerSpec] = []
    for item in pattern.split(","):
        match = _ITEM.fullmatch(item.strip())
        if match is None or match["name"] not in MIXERS:
            raise ValueError(
                f"pattern: {item.strip()!r} is not a mixer; allowed: {', '.join(MIXERS)}, "
                "each with an optional window '(w)' and repeat count '*n', separated by commas"
            )
        window = None if match["window"] is None else int(match["window"])
        count = 1 if match["count"] is None else int(match["count"])
        if window is not None and (match["name"] != "window" or not 1 <= window <= LONGEST):
            raise ValueError(
                f"pattern: {item.strip()!r}: only 'window(w)' with w in 1..{LONGEST} takes a number"
            )
        if not 1 <= count <= _MOST:
            raise ValueError(
                f"pattern: {item.strip()!r}: a repeat count must be >= 1 and <= {_MOST}"
            )
        layers.extend([LayerSpec(match["name"], window)] * count)
    return tuple(layers)


def expand_pattern(pattern: str, num_layers: int) -> tuple[LayerSpec, ...]:
    """Lay a pattern over the depth.

    Args:
        pattern: See the module's text.
        num_layers: Depth N.

    Returns:
        One `LayerSpec` a layer.

    Raises:
        ValueError: The pattern is malformed or longer than the depth.
    """
    bookend = pattern.startswith(_BOOKEND)
    cycle = parse_pattern(pattern.removeprefix(_BOOKEND))
    inner = num_layers - 2 if bookend else num_layers
    if bookend and num_layers < 3:
        raise ValueError(f"num_layers: {num_layers} is too few for a bookend pattern; must be >= 3")
    if len(cycle) > inner:
        raise ValueError(
            f"pattern: {pattern!r} names {len(cycle)} layers, more than the {inner} to fill "
            f"(num_layers = {num_layers})"
        )
    filled = tuple(cycle[i % len(cycle)] for i in range(inner))
    return (LayerSpec("full"), *filled, LayerSpec("full")) if bookend else filled
