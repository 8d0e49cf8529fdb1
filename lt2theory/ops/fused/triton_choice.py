# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""The exact choice of the highest numbers of long rows, by many programs in one kernel.

Every program of a row finds from the same sample a bar that surely more than enough numbers pass,
and keeps those of its slice that do. Whichever program comes last takes the highest of what all
have kept; it stands in the order of the places, so that among equals the earlier goes first. Where
the bar let pass too few or more than a program holds (a sample is only a sample, and numbers may
be equal), that program counts over the whole row instead: slower, and as exact.
"""

from typing import no_type_check

import triton
import triton.language as tl
from torch import Tensor

from lt2theory.ops.fused.triton_highest import LOWEST, find_least, slots, take_highest
from lt2theory.ops.fused.triton_overlap import let_next_start, overlaps, wait_for_last
from lt2theory.ops.triton_grid import place_of

MOST = 2**14
"""Places that can be taken."""
_SLICE, _SAMPLE = 2048, 1024
"""Numbers of a program, and numbers of a row that the bar is found from."""


@triton.jit
@no_type_check
def _bar(ORDER, first, seen, K: tl.constexpr, SAMPLE: tl.constexpr):
    """A number that K of a row surely are not below, and not many more."""
    i = tl.arange(0, SAMPLE)
    # One of every stretch, not at the same place of each: keys may repeat in a rhythm.
    stretch = tl.maximum(seen // SAMPLE, 1)
    at = (i * seen) // SAMPLE + ((i * 40503) & 0xFFFF) % stretch
    sample = tl.load(ORDER + first + at, mask=at < seen, other=LOWEST)
    # The count in a sample of places of the K highest, and four times how far it may be off.
    share = K / seen.to(tl.float32)
    rank = SAMPLE * share + 4.0 * tl.sqrt(SAMPLE * share * tl.maximum(1.0 - share, 0.0)) + 2.0
    wanted = rank.to(tl.int32)
    bar = find_least(sample, wanted, wanted // 16)
    return tl.where((seen <= K) | (wanted >= SAMPLE), LOWEST + 1, bar)


@triton.jit
@no_type_check
def _reach(ORDER, start, seen, guess, HELD: tl.constexpr):
    """How many numbers of a row are not below a guess."""
    reach = tl.zeros([HELD], tl.int32)
    at = tl.arange(0, HELD)
    while start < seen:
        order = tl.load(ORDER + start + at, mask=start + at < seen, other=LOWEST)
        reach += ((order >= guess) & (start + at < seen)).to(tl.int32)
        start += HELD
    return tl.sum(reach, 0)


@triton.jit
@no_type_check
def _from_the_row(ORDER, OUT, bar, seen, wanted, HELD: tl.constexpr):
    """Take the highest of a row that no program holds; ORDER begins with the first that is seen."""
    start = seen * 0
    low = bar.to(tl.int64)
    high = low + 1
    many = _reach(ORDER, start, seen, low, HELD)
    few = _reach(ORDER, start, seen, high, HELD)
    # Mostly the least is the bar itself, where it passed too many that are equal.
    high = tl.where(many < wanted, low, tl.where(few < wanted, high, low * 0 + 0x80000000))
    low = tl.where(many < wanted, low * 0 + LOWEST + 1, tl.where(few < wanted, low, low + 1))
    while high - low > 1:
        middle = (low + high) >> 1
        enough = _reach(ORDER, start, seen, middle, HELD) >= wanted
        low = tl.where(enough, middle, low)
        high = tl.where(enough, high, middle)
    least = low.to(tl.int32)
    room = wanted - _reach(ORDER, start, seen, high, HELD)
    at = tl.arange(0, HELD)
    done = wanted * 0
    while start < seen:
        there = start + at < seen
        order = tl.load(ORDER + start + at, mask=there, other=LOWEST)
        level = order == least
        taken, slot = slots(order > least, level, room)
        tl.store(OUT + done + slot, (start + at).to(tl.int32), mask=taken)
        done += tl.sum(taken.to(tl.int32), 0)
        room -= tl.sum((taken & level).to(tl.int32), 0)
        start += HELD


@triton.jit
@no_type_check
def _from_the_kept(
    SOME_ORDER, SOME, STARTS, OUT, first, total,
    SLICE: tl.constexpr, SLICES: tl.constexpr, STEPS: tl.constexpr, K: tl.constexpr,
    HELD: tl.constexpr,
):  # fmt: skip
    """Take the highest of what the programs of a row have kept, slice after slice."""
    m = tl.arange(0, HELD)
    piece = m * 0
    # The last slice that begins at or before m, by halves.
    for step in tl.static_range(STEPS):
        later = piece + (1 << (STEPS - 1 - step))
        begin = tl.load(STARTS + later, mask=later < SLICES, other=HELD)
        piece = tl.where(begin <= m, later, piece)
    at = piece * SLICE + m - tl.load(STARTS + piece)
    order = tl.load(SOME_ORDER + at, mask=m < total, other=LOWEST, cache_modifier=".cg")
    place = tl.load(SOME + at, mask=m < total, other=0, cache_modifier=".cg")
    taken, slot, _ = take_highest(order, K, 1)
    tl.store(OUT + slot, place - first.to(tl.int32), mask=taken)


@triton.jit
@no_type_check
def _choice_kernel(
    ORDER, LENGTH, FIRST, SOME_ORDER, SOME, COUNTS, STARTS, ARRIVED, OUT, count,
    SLICE: tl.constexpr, SLICES: tl.constexpr, BS: tl.constexpr, STEPS: tl.constexpr,
    K: tl.constexpr, BK: tl.constexpr, SAMPLE: tl.constexpr, HELD: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """One program a slice and row."""
    piece, b = place_of(SLICES)
    j = tl.arange(0, SLICE)
    place = piece * SLICE + j
    s = tl.arange(0, BS)
    e = tl.arange(0, BK)
    wait_for_last(PDL)
    let_next_start(PDL)
    first = tl.load(FIRST + b)
    length = tl.load(LENGTH)
    seen = tl.maximum(tl.minimum(length, count) - first, 0)
    row = ORDER + b * count
    bar = _bar(row, first, tl.maximum(seen, 1), K, SAMPLE)
    order = tl.load(row + place, mask=(place >= first) & (place < first + seen), other=LOWEST)
    # What is not seen is below every bar.
    kept = order >= bar
    slot = tl.cumsum(kept.to(tl.int32), 0) - 1
    to = (b * SLICES + piece) * SLICE
    tl.store(SOME_ORDER + to + slot, order, mask=kept)
    tl.store(SOME + to + slot, place, mask=kept)
    tl.store(COUNTS + b * SLICES + piece, tl.sum(kept.to(tl.int32), 0))
    # All stores of this program come before its arrival, and all loads of the last one after it.
    tl.debug_barrier()
    if tl.atomic_add(ARRIVED + b, 1, sem="acq_rel") == SLICES - 1:
        tl.store(ARRIVED + b, 0)
        # Other programs wrote these: the first level of this one's cache may hold what was before.
        of_slices = COUNTS + b * SLICES + s
        counts = tl.load(of_slices, mask=s < SLICES, other=0, cache_modifier=".cg")
        total = tl.sum(counts, 0)
        starts = STARTS + b * SLICES
        tl.store(starts + s, tl.cumsum(counts, 0) - counts, mask=s < SLICES)
        tl.debug_barrier()
        wanted = tl.minimum(seen, K).to(tl.int32)
        out = OUT + b * K
        tl.store(out + e, -1, mask=(e >= wanted) & (e < K))
        if (total >= wanted) & (total <= HELD):
            begin = b * SLICES * SLICE
            _from_the_kept(SOME_ORDER + begin, SOME + begin, starts, out, first, total,
                           SLICE, SLICES, STEPS, K, HELD)  # fmt: skip
        else:
            _from_the_row(row + first, out, bar, seen, wanted, HELD)


def can_choose(top_k: int) -> bool:
    """Whether there is a kernel for a choice.

    Args:
        top_k: Places that are taken.

    Returns:
        Whether `highest_places` takes it.
    """
    return top_k <= MOST


def highest_places(
    order: Tensor,
    top_k: int,
    arrived: Tensor,
    *,
    length: Tensor,
    first: Tensor,
    slice_size: int = _SLICE,
    sample: int = _SAMPLE,
    held: int | None = None,
) -> Tensor:
    """The places with the highest numbers among those that a row sees, the earlier among equals.

    Args:
        order: Numbers by place `[b capacity]`, int32, above -2^31.
        top_k: Places that are taken, at most the capacity and `MOST`.
        arrived: Counters, int32, one a row at least, all 0; they are 0 again afterwards.
        length: Places in use: int64 `[1]`.
        first: First place that a row sees `[b]`, int64.
        slice_size: Numbers of one program, a power of 2.
        sample: Numbers that the bar is found from, a power of 2.
        held: Numbers that the last program of a row can hold, a power of 2 and `top_k` at least;
            None chooses.

    Returns:
        `[b 1 top_k]`, int32, in order and counted from `first`; -1 where fewer are seen.
    """
    batch, count = order.shape
    slice_size = min(slice_size, max(16, triton.next_power_of_2(count)))
    slices, sample = triton.cdiv(count, slice_size), min(sample, triton.next_power_of_2(count))
    if held is None:
        held = _held(top_k, count, sample)
    out, some = order.new_empty(batch, 1, top_k), order.new_empty(batch, slices * slice_size)
    some_order = order.new_empty(batch, slices * slice_size)
    counts, starts = order.new_empty(batch, slices), order.new_empty(batch, slices)
    early = overlaps(order.device)
    _choice_kernel[(slices * batch,)](
        order, length, first, some_order, some, counts, starts, arrived, out, count,
        SLICE=slice_size, SLICES=slices, BS=max(2, triton.next_power_of_2(slices)),
        STEPS=(slices - 1).bit_length(), K=top_k, BK=max(2, triton.next_power_of_2(top_k)),
        SAMPLE=max(16, sample), HELD=held, PDL=early,
        num_warps=8 if held <= 4096 else 16 if held <= 8192 else 32, launch_pdl=early,
    )  # fmt: skip
    return out


def _held(top_k: int, count: int, sample: int) -> int:
    """What passes the bar and a fifth more, if that is more than what is taken."""
    share = min(1.0, top_k / count)
    passed = (sample * share + 4.0 * (sample * share * (1.0 - share)) ** 0.5 + 2.0) * count / sample
    most = max(top_k, min(1.2 * passed, count))
    return int(min(max(16, triton.next_power_of_2(int(most))), 2 * MOST))
