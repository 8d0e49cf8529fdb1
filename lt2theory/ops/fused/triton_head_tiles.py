# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Tiles of the keys and values of one head, of widths that are no power of two, and their softmax.

A width is cut into two powers of two, so that little of a tile is empty.
"""

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def load_columns(ROWS, at, real, begin, D: tl.constexpr, B: tl.constexpr):
    """Columns begin to begin + B of rows of D numbers, which start at ROWS + at."""
    c = begin + tl.arange(0, B)
    return tl.load(
        ROWS + at[:, None] + c[None, :], mask=real[:, None] & (c < D)[None, :], other=0.0
    )


@triton.jit
@no_type_check
def store_columns(ROWS, at, real, begin, x, D: tl.constexpr, B: tl.constexpr):
    """`load_columns` the other way, in the dtype that is stored there."""
    c = begin + tl.arange(0, B)
    to = ROWS + at[:, None] + c[None, :]
    tl.store(to, x.to(ROWS.dtype.element_ty), mask=real[:, None] & (c < D)[None, :])


@triton.jit
@no_type_check
def weigh_tile(s, top, total):
    """One tile more: its weights, what earlier ones shrink by, the highest score and the sum."""
    # Scores are minus infinity where nothing is seen.
    higher = tl.maximum(top, tl.max(s, 1))
    base = tl.where(higher == float("-inf"), 0.0, higher)
    p = tl.exp(s - base[:, None])
    shrink = tl.exp(top - base)
    return p, shrink, higher, total * shrink + tl.sum(p, 1)


def cut_in_two(width: int) -> tuple[int, int]:
    """Two powers of two that hold a width and hardly more.

    Args:
        width: At least 1.

    Returns:
        Both of them at least 16, or 0 for the second.
    """
    whole: int = triton.next_power_of_2(width)
    if whole <= 16 or width > whole // 4 * 3:
        return max(16, whole), 0
    rest: int = triton.next_power_of_2(width - whole // 2)
    return whole // 2, max(16, rest)
