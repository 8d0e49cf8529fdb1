# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Which keys a query reads and which queries read a tile of keys, for kernels on runs of keys.

With WINDOW, query t of T is token `M - T + t` of M and reads `window` keys, its own the last of
them; otherwise LOW, HIGH and READERS say it. Importing this module imports Triton.
"""

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def span_of(LOW, HIGH, b, t, real, window, T, M, WINDOW: tl.constexpr):
    """The bounds of queries' runs; nothing where they are not real."""
    if WINDOW:
        end = t + (M - T) + 1
        low = tl.where(real, tl.maximum(end - window, 0), 0x3FFFFFFF)
        high = tl.where(real, end, 0)
    else:
        low = tl.load(LOW + b * T + t, mask=real, other=0x3FFFFFFF)
        high = tl.load(HIGH + b * T + t, mask=real, other=0)
    return low, high


@triton.jit
@no_type_check
def readers_of(READERS, b, tile, window, T, M, B, TILES, WINDOW: tl.constexpr, BN: tl.constexpr):
    """The first query that reads anything of a tile of keys, and the one after all that do."""
    if WINDOW:
        key = tile * BN - (M - T)
        begin = tl.maximum(key, 0)
        end = tl.minimum(key + (BN - 1) + window, T)
    else:
        begin = tl.load(READERS + b * TILES + tile)
        end = tl.load(READERS + (B + b) * TILES + tile)
    return begin, end
