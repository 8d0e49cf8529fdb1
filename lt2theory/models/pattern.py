"""Layer patterns: which mixer stands at which depth.

A pattern is a comma-separated list of mixer names, each with an optional window in parentheses
and an optional repeat count, cycled over the depth: `"gdn*4,full"` over 21 layers puts softmax
attention at layers 4, 9, 14 and 19, as LT2's 1.3B hybrid does. `"bookend:gdn*4,full"` puts softmax
attention first and last and cycles the rest between them. Patterns joined by `->` are those of the
loops, cycled over them: `"full->window(512)->window(256)->window(128)"` narrows the attention from
loop to loop (LT2's loop-level hybrids).
"""

import re
from dataclasses import dataclass
from functools import cache

from lt2theory.mixers import MIXERS
from tasks.names import unknown_name

_ITEM = re.compile(r"(?P<name>[a-z0-9_]+)(?:\((?P<window>\d{1,9})\))?(?:\*(?P<count>\d{1,9}))?")
_BOOKEND = "bookend:"
_NEXT_LOOP = "->"
LONGEST = 2**40
"""A longer window, block or list of keys is a slip: no text is that long."""
_MOST = 10_000
"""Most repeats of one item, so that a typing slip fills no memory."""
_SPELLING = "each with an optional window '(w)' and repeat count '*n', separated by commas"


@dataclass(frozen=True)
class LayerSpec:
    """One layer's mixer.

    Attributes:
        mixer: Its name in `lt2theory.mixers.MIXERS`.
        window: The window written in the pattern, or None for the config's.
    """

    mixer: str
    window: int | None = None

    @property
    def written(self) -> str:
        """As in a pattern, such as `window(8)`."""
        return self.mixer if self.window is None else f"{self.mixer}({self.window})"

    @property
    def weights(self) -> str:
        """Layers of one name can share a mixer's weights: a window needs none of its own."""
        return "full" if self.mixer == "window" else self.mixer


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
            named = item.strip() if match is None else match["name"]
            raise ValueError(unknown_name("pattern", named, MIXERS, more=_SPELLING))
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


@cache
def expand_loops(
    pattern: str, num_layers: int, num_loops: int
) -> tuple[tuple[LayerSpec, ...], ...]:
    """Lay a pattern over the depth in every loop.

    Args:
        pattern: See the module's text.
        num_layers: Depth N.
        num_loops: Loops T.

    Returns:
        For each loop one `LayerSpec` a layer.

    Raises:
        ValueError: The pattern is malformed, longer than the depth, or has more loops than T.
    """
    parts = [part.strip() for part in pattern.split(_NEXT_LOOP)]
    if len(parts) > num_loops:
        raise ValueError(
            f"pattern: {pattern!r} names {len(parts)} loops, more than there are "
            f"(num_loops = {num_loops})"
        )
    loops = [expand_pattern(part, num_layers) for part in parts]
    return tuple(loops[loop % len(loops)] for loop in range(num_loops))
