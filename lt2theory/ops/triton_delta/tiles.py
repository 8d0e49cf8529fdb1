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
