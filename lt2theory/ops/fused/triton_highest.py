# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""The exact choice of the highest of what one program holds, without a sort.

Numbers are whole and ordered as the float32 they stand for. The least that is taken is closed in
on by counting how many are not below a guess; of equals the earlier goes first.
"""

from typing import no_type_check

import triton
import triton.language as tl

LOWEST, HIGHEST = tl.constexpr(-(2**31)), tl.constexpr(2**31 - 1)
"""Says that a place is not seen, and the highest number that is allowed."""


@triton.jit
@no_type_check
def turn_bits(bits):
    """Bits of a float32 as a whole number in the order of the floats, and back."""
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
@no_type_check
def _as_number(order):
    """The float32 that a whole number stands for, or the nearest that is finite."""
    largest: tl.constexpr = 0x7F7FFFFF
    order = tl.maximum(tl.minimum(order, largest), -largest - 1)
    return turn_bits(order.to(tl.int32)).to(tl.float32, bitcast=True)


@triton.jit
@no_type_check
def _guess(low, high, found, over, K: tl.constexpr):
    """Where K would be found if the root of the count fell evenly from low to high."""
    many, few = tl.sqrt(found.to(tl.float32)), tl.sqrt(over.to(tl.float32))
    wanted = tl.sqrt((over * 0 + K).to(tl.float32))
    share = (many - wanted) / (many - few)
    at = _as_number(low) * (1.0 - share) + _as_number(high - 1) * share
    return turn_bits(at.to(tl.int32, bitcast=True)).to(tl.int64)


@triton.jit
@no_type_check
def take_highest(order, K: tl.constexpr, EVEN: tl.constexpr):
    """The K highest of a list, or all that are seen where fewer are.

    EVEN takes guesses from the counts so far: right where many of many are taken. Every fourth step
    is the middle of what is left, so that the end is near whatever the numbers are.

    Returns:
        Which are taken, the slot of each in their order in the list, and how many they are.
    """
    seen = order > LOWEST
    found = tl.sum(seen.to(tl.int32), 0)
    over = found * 0
    low = tl.min(tl.where(seen, order, HIGHEST), 0).to(tl.int64)
    high = tl.max(order, 0).to(tl.int64) + 1
    turn = found * 0
    # K or more are not below `low`, fewer are not below `high`; done where exactly K are not below.
    while (high - low > 1) & (found > K):
        middle = (low + high) >> 1
        if EVEN:
            guess = tl.maximum(low + 1, tl.minimum(high - 1, _guess(low, high, found, over, K)))
            middle = tl.where(turn % 4 == 3, middle, guess)
        reach = tl.sum((order >= middle.to(tl.int32)).to(tl.int32), 0)
        enough = reach >= K
        low = tl.where(enough, middle, low)
        high = tl.where(enough, high, middle)
        found = tl.where(enough, reach, found)
        over = tl.where(enough, over, reach)
        turn += 1
    least = low.to(tl.int32)
    above = (order > least).to(tl.int32)
    level = (order == least).to(tl.int32)
    room = K - tl.sum(above, 0)
    # Both counts in one running sum: of the higher ones below, of the equal ones above.
    counts = tl.cumsum(above + (level << 16), 0)
    equal = (counts >> 16) & 0xFFFF
    taken = (above > 0) | ((level > 0) & (equal <= room))
    slot = (counts & 0xFFFF) + tl.minimum(equal, room) - 1
    return taken, slot, tl.sum(taken.to(tl.int32), 0)
