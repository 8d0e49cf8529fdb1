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
def _guess(low, high, found, over, wanted):
    """Where `wanted` would be found if the root of the count fell evenly from low to high."""
    many, few = tl.sqrt(found.to(tl.float32)), tl.sqrt(over.to(tl.float32))
    share = (many - tl.sqrt(wanted.to(tl.float32))) / (many - few)
    at = _as_number(low) * (1.0 - share) + _as_number(high - 1) * share
    return turn_bits(at.to(tl.int32, bitcast=True)).to(tl.int64)


@triton.jit
@no_type_check
def _range(order):
    """How many of a list are seen, the least of them, and one above the highest."""
    seen = order > LOWEST
    low = tl.min(tl.where(seen, order, HIGHEST), 0).to(tl.int64)
    return tl.sum(seen.to(tl.int32), 0), low, tl.max(order, 0).to(tl.int64) + 1


@triton.jit
@no_type_check
def find_least(order, wanted, slack):
    """A number that at least `wanted` of a list are not below: the highest such without slack.

    Guesses follow from the counts so far: right where many of many are wanted. Every fourth is the
    middle of what is left, so that the end is near whatever the numbers are. With slack it stops as
    soon as no more than that many are taken in addition.

    Returns:
        The number; the least seen where fewer than `wanted` are.
    """
    found, low, high = _range(order)
    over = found * 0
    turn = found * 0
    # All wanted are not below `low`, fewer are not below `high`.
    while (high - low > 1) & (found > wanted + slack):
        guess = _guess(low, high, found, over, wanted)
        guess = tl.maximum(low + 1, tl.minimum(high - 1, guess))
        middle = tl.where(turn % 4 == 3, (low + high) >> 1, guess)
        reach = tl.sum((order >= middle.to(tl.int32)).to(tl.int32), 0)
        enough = reach >= wanted
        low = tl.where(enough, middle, low)
        high = tl.where(enough, high, middle)
        found = tl.where(enough, reach, found)
        over = tl.where(enough, over, reach)
        turn += 1
    return low.to(tl.int32)


@triton.jit
@no_type_check
def find_least_of_few(order, wanted, GUESSES: tl.constexpr):
    """`find_least` without slack, by many guesses at a time: right for short lists.

    They stand evenly between the floats of both ends, in every third round between the numbers.

    Returns:
        As for `find_least`.
    """
    found, low, high = _range(order)
    turn = found * 0
    i = tl.arange(0, GUESSES) + 1
    while (high - low > 1) & (found > wanted):
        begin = _as_number(low)
        guess = begin + (_as_number(high - 1) - begin) * (i.to(tl.float32) / (GUESSES + 1))
        guess = turn_bits(guess.to(tl.int32, bitcast=True)).to(tl.int64)
        guess = tl.where(turn % 3 == 2, low + (high - low) * i // (GUESSES + 1), guess)
        guess = tl.maximum(low + 1, tl.minimum(high - 1, guess))
        higher = order[None, :] >= guess.to(tl.int32)[:, None]
        reach = tl.sum(higher.to(tl.int32), 1)
        enough = reach >= wanted
        found = tl.min(tl.where(enough, reach, found), 0)
        low = tl.max(tl.where(enough, guess, low), 0)
        high = tl.min(tl.where(enough, high, guess), 0)
        turn += 1
    return low.to(tl.int32)


@triton.jit
@no_type_check
def slots(above, level, room):
    """Which of a list are taken, all `above` and the first `room` at a `level`, and their slots.

    Returns:
        Which are taken, and the slot of each in their order in the list.
    """
    # Both counts in one running sum: of the higher ones below, of the equal ones above.
    counts = tl.cumsum(above.to(tl.int32) + (level.to(tl.int32) << 16), 0)
    equal = (counts >> 16) & 0xFFFF
    taken = above | (level & (equal <= room))
    return taken, (counts & 0xFFFF) + tl.minimum(equal, room) - 1


@triton.jit
@no_type_check
def take_highest(order, K: tl.constexpr, GUESSES: tl.constexpr):
    """The K highest of a list, or all that are seen where fewer are, by GUESSES at a time.

    Returns:
        Which are taken, the slot of each in their order in the list, and how many they are.
    """
    none = tl.sum((order == LOWEST).to(tl.int32), 0) * 0
    if GUESSES > 1:
        least = find_least_of_few(order, none + K, GUESSES)
    else:
        least = find_least(order, none + K, none)
    above = order > least
    room = K - tl.sum(above.to(tl.int32), 0)
    # Where nothing is seen, the least is above what says so.
    taken, slot = slots(above, order == least, room)
    return taken, slot, tl.sum(taken.to(tl.int32), 0)
