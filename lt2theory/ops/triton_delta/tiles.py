"""Sizes of the kernels' tiles: fixed by the widths of a head, so that nothing is tuned at run time.

They were chosen by the registers that the code for compute capability 9.0 spills: short chunks and
few warps for the curriculum's models (keys and values of 32).
"""

from dataclasses import dataclass

WIDEST_KEYS = 128
"""Largest key width: all keys of a program's part of the state stay in registers."""
WIDEST_VALUES = 256
"""Largest value width; programs share the values of a head, so it is only what was tested."""


@dataclass(frozen=True)
class Tiles:
    """How a chunk is cut.

    Attributes:
        keys: Key width, filled up to a power of two.
        values: Values that one program takes, a power of two.
        log_steps: Base-2 logarithm of the factor steps of a chunk.
        forward_warps: Warps of a program of the forward kernel.
        backward_warps: The same of the backward kernel.
    """

    keys: int
    values: int
    log_steps: int
    forward_warps: int
    backward_warps: int

    def count(self, value_width: int) -> int:
        """Programs that share the values of a head.

        Args:
            value_width: Value width of a head.

        Returns:
            Their number.
        """
        return -(-value_width // self.values)

    def chunks(self, steps: int) -> int:
        """Chunks of a stream.

        Args:
            steps: Factor steps of the stream.

        Returns:
            Their number; the last may be short.
        """
        return -(-steps >> self.log_steps) if steps else 0


def tiles_of(key_width: int, value_width: int) -> Tiles:
    """The tiles for heads of these widths.

    Args:
        key_width: Key width of a head, at most `WIDEST_KEYS`.
        value_width: Value width of a head, at most `WIDEST_VALUES`.

    Returns:
        The tiles.
    """
    keys = _power_of_two(key_width)
    values = min(_power_of_two(value_width), 64 if keys <= 64 else 32)
    if keys <= 64:
        warps = 1 if keys * values <= 32 * 32 else 4
        return Tiles(keys, values, 4, warps, warps)
    # Every chunk keeps a state: of wide heads, short chunks would cost more memory than the inputs.
    return Tiles(keys, values, 5, 8, 8)


def _power_of_two(width: int) -> int:
    """The next power of two, at least the 16 of the smallest product of tiles."""
    return max(16, 1 << (int(width) - 1).bit_length())


@dataclass(frozen=True)
class AheadTiles:
    """How chunks that are prepared ahead of their states are cut.

    Attributes:
        keys: Keys of the first tile, a power of two.
        more_keys: Keys of the second one, a power of two, or 0 where the first has all: 96 keys are
            64 and 32 rather than a tile of 128.
        values: Values that one program takes, a power of two.
        log_steps: Base-2 logarithm of the factor steps of a chunk, 5 or 6.
        prepare_warps: Warps of a program that prepares a chunk.
        walk_warps: Warps of a program that walks the chunks.
        walk_stages: Chunks that it loads ahead, and the one at hand.
    """

    keys: int
    more_keys: int
    values: int
    log_steps: int = 5
    prepare_warps: int = 4
    walk_warps: int = 4
    walk_stages: int = 2

    @property
    def size(self) -> int:
        """Factor steps of a chunk."""
        return 1 << self.log_steps

    @property
    def width(self) -> int:
        """Keys of both tiles."""
        return self.keys + self.more_keys


def ahead_tiles(key_width: int, value_width: int) -> AheadTiles:
    """The tiles of chunks that are prepared ahead, for heads of these widths.

    Args:
        key_width: Key width of a head, at most `WIDEST_KEYS`.
        value_width: Value width of a head, at most `WIDEST_VALUES`.

    Returns:
        The tiles.
    """
    more = _power_of_two(key_width - 64) if key_width > 64 else 0
    keys = 64 if more else _power_of_two(key_width)
    return AheadTiles(keys, more, min(_power_of_two(value_width), 64))


def goes_ahead(key_width: int, value_width: int, steps: int) -> bool:
    """Whether values alone are computed by chunks that are prepared ahead of their states.

    A walk that does everything itself has a chunk's whole work in one chain of dependent products.
    Of narrow heads that is short, a call is over sooner without two more launches, and short
    streams have few chunks to prepare at once.

    Args:
        key_width: Key width of a head.
        value_width: Value width of a head.
        steps: Factor steps of a stream.

    Returns:
        Whether it does.
    """
    return (key_width > 32 or value_width > 64) and steps >= 256
