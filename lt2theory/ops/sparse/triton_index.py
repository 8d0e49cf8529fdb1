# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Triton kernels that score the keys of a block of queries and choose the highest of them.

Scores are kept as whole numbers in the same order (`order`), so that the choice is a search for one
number a query: `least`, the smallest that is taken, and `cut`, the place before which keys of that
number are taken. Both together give the choice back from the scores, which are computed again
rather than kept. Importing this module imports Triton.

Axes: b batch, t queries, c those of one block, m keys, s keys in whole tiles, n heads and i width
of the indexer.
"""

from typing import no_type_check

import triton
import triton.language as tl

from lt2theory.ops.triton_grid import place_of

TILE = 64
"""Queries and keys of a tile whose emptiness is known."""

_LOWEST = tl.constexpr(-(2**31))
"""The number of a key that is not seen, below that of any score."""


@triton.jit(do_not_specialize=["across", "down"])
@no_type_check
def score_kernel(
    Q, K, W, QUERY_SEGMENTS, KEY_SEGMENTS, ORDER, T, M, START, WINDOW, C, S, across, down,
    N: tl.constexpr, WIDTH: tl.constexpr, SEGMENTED: tl.constexpr,
    BT: tl.constexpr, BS: tl.constexpr, BI: tl.constexpr, PREC: tl.constexpr,
):  # fmt: skip
    """One tile of `sum_n w_tn relu(q_tn . k_s)` as whole numbers in the same order."""
    x, line = place_of(across)
    y = (line % down).to(tl.int32)
    b = line // down
    m = x * BS + tl.arange(0, BS)
    row = y * BT + tl.arange(0, BT)
    t = START + row
    place = M - T + t
    order = tl.full([BT, BS], _LOWEST, tl.int32)
    if x * BS <= M - T + START + y * BT + BT - 1:
        score = tl.zeros([BT, BS], tl.float32)
        for n in range(0, N):
            similar = tl.zeros([BT, BS], tl.float32)
            for first in range(0, WIDTH, BI):
                i = first + tl.arange(0, BI)
                q_mask = (t < T)[:, None] & (i < WIDTH)[None, :]
                q = tl.load(
                    Q + ((b * T + t[:, None]) * N + n) * WIDTH + i[None, :], mask=q_mask, other=0.0
                )
                k_mask = (m < M)[:, None] & (i < WIDTH)[None, :]
                k = tl.load(K + (b * M + m[:, None]) * WIDTH + i[None, :], mask=k_mask, other=0.0)
                similar = tl.dot(q, tl.trans(k), acc=similar, input_precision=PREC)
            w = tl.load(W + (b * T + t) * N + n, mask=t < T, other=0.0).to(tl.float32)
            score += w[:, None] * tl.maximum(similar, 0.0)
        # Minus zero ties with zero.
        score = tl.where(score == 0.0, 0.0, score)
        bits = score.to(tl.int32, bitcast=True)
        # Negative floats grow downwards; without their sign bit they are turned round.
        bits = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
        seen = (m[None, :] <= place[:, None]) & (m[None, :] > place[:, None] - WINDOW)
        seen = seen & (t < T)[:, None]
        if SEGMENTED:
            asking = tl.load(QUERY_SEGMENTS + b * T + t, mask=t < T, other=-1)
            asked = tl.load(KEY_SEGMENTS + b * M + m, mask=m < M, other=-1)
            seen = seen & (asking[:, None] == asked[None, :]) & (asking >= 0)[:, None]
        order = tl.where(seen, bits, order)
    tl.store(ORDER + (b * C + row[:, None]) * S + m[None, :], order)


@triton.jit
@no_type_check
def _three_counts(at, held, keys, low, middle, high, BLOCK: tl.constexpr, HELD: tl.constexpr):
    """How many keys of a row have a number of at least `low`, `middle` and `high`."""
    if HELD:
        a = tl.sum((held >= low).to(tl.int32))
        b = tl.sum((held >= middle).to(tl.int32))
        c = tl.sum((held >= high).to(tl.int32))
    else:
        a_sum = tl.zeros([BLOCK], tl.int32)
        b_sum = tl.zeros([BLOCK], tl.int32)
        c_sum = tl.zeros([BLOCK], tl.int32)
        start = 0
        while start < keys:
            m = start + tl.arange(0, BLOCK)
            order = tl.load(at + m, mask=m < keys, other=_LOWEST)
            a_sum += (order >= low).to(tl.int32)
            b_sum += (order >= middle).to(tl.int32)
            c_sum += (order >= high).to(tl.int32)
            start += BLOCK
        a = tl.sum(a_sum)
        b = tl.sum(b_sum)
        c = tl.sum(c_sum)
    return a, b, c


@triton.jit
@no_type_check
def _ties_before(at, held, keys, number, place, BLOCK: tl.constexpr, HELD: tl.constexpr):
    """How many keys of a row before a place have this number."""
    if HELD:
        count = tl.sum(((held == number) & (tl.arange(0, BLOCK) < place)).to(tl.int32))
    else:
        total = tl.zeros([BLOCK], tl.int32)
        start = 0
        while start < place:
            m = start + tl.arange(0, BLOCK)
            order = tl.load(at + m, mask=m < keys, other=_LOWEST)
            total += ((order == number) & (m < place)).to(tl.int32)
            start += BLOCK
        count = tl.sum(total)
    return count


@triton.jit
@no_type_check
def threshold_kernel(
    ORDER, LEAST, CUT, T, START, C, S, KEYS, TOP_K,
    HALF: tl.constexpr, BLOCK: tl.constexpr, HELD: tl.constexpr,
):  # fmt: skip
    """The least number that one query takes, two bits at a time, and where its ties end.

    HALF is the largest power of two below the number of keys. A row is held in registers (HELD)
    or, where it is too long, read again for every digit.
    """
    row, b = place_of(tl.minimum(C, T - START))
    t = START + row
    at = ORDER + (b * C + row) * S
    m = tl.arange(0, BLOCK)
    held = tl.load(at + m, mask=m < KEYS, other=_LOWEST)
    # 64 bits, where no candidate overflows.
    least = tl.full([], _LOWEST, tl.int64)
    count, _, _ = _three_counts(
        at, held, KEYS, _LOWEST + 1, _LOWEST + 1, _LOWEST + 1, BLOCK=BLOCK, HELD=HELD
    )
    if count <= TOP_K:
        least += 1
    step = tl.full([], 2**30, tl.int64)
    # As soon as exactly top_k keys are left, lower bits make no difference.
    while (step > 0) & (count > TOP_K):
        low = (least + step).to(tl.int32)
        middle = (least + 2 * step).to(tl.int32)
        high = (least + 3 * step).to(tl.int32)
        a, b_count, c = _three_counts(at, held, KEYS, low, middle, high, BLOCK=BLOCK, HELD=HELD)
        count = tl.where(a >= TOP_K, a, count)
        count = tl.where(b_count >= TOP_K, b_count, count)
        count = tl.where(c >= TOP_K, c, count)
        digit = (a >= TOP_K).to(tl.int64) + (b_count >= TOP_K).to(tl.int64)
        least += step * (digit + (c >= TOP_K).to(tl.int64))
        step = step // 4
    number = least.to(tl.int32)
    cut = tl.full([], 0, tl.int32) + KEYS
    if count > TOP_K:
        ties = _ties_before(at, held, KEYS, number, KEYS, BLOCK=BLOCK, HELD=HELD)
        room = TOP_K - (count - ties)
        cut = tl.full([], 0, tl.int32)
        half = tl.full([], HALF, tl.int32)
        while half > 0:
            before = _ties_before(at, held, KEYS, number, cut + half, BLOCK=BLOCK, HELD=HELD)
            cut = tl.where(before <= room, cut + half, cut)
            half = half // 2
    tl.store(LEAST + b * T + t, number, mask=t < T)
    tl.store(CUT + b * T + t, cut, mask=t < T)


@triton.jit(do_not_specialize=["across", "down"])
@no_type_check
def mask_kernel(
    ORDER, LEAST, CUT, MASK, FLAGS, T, START, C, S, across, down, BLOCK: tl.constexpr,
):  # fmt: skip
    """One tile of the choice as bytes, and whether anything in it is chosen."""
    x, line = place_of(across)
    y = (line % down).to(tl.int32)
    b = line // down
    m = x * BLOCK + tl.arange(0, BLOCK)
    row = y * BLOCK + tl.arange(0, BLOCK)
    t = START + row
    at = (b * C + row[:, None]) * S + m[None, :]
    order = tl.load(ORDER + at)
    least = tl.load(LEAST + b * T + t, mask=t < T, other=0x7FFFFFFF)
    cut = tl.load(CUT + b * T + t, mask=t < T, other=0)
    tied = (order == least[:, None]) & (m[None, :] < cut[:, None])
    taken = ((order > least[:, None]) | tied).to(tl.int32)
    tl.store(MASK + at, taken.to(tl.int8))
    flag = tl.max(tl.max(taken, 1), 0)
    tiles = S // BLOCK
    tl.store(FLAGS + (b * (C // BLOCK) + y) * tiles + x, flag)


@triton.jit
@no_type_check
def tiles_kernel(
    FLAGS, LIST, COUNT, LINES, ALONG, BATCH_STRIDE, LINE_STRIDE, STRIDE,
    MERGED: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The tiles of one line (of a row of tiles, or of a column) that are not empty, in order."""
    line, b = place_of(LINES)
    at = FLAGS + b * BATCH_STRIDE + line * MERGED * LINE_STRIDE
    out = LIST + (b * LINES + line) * ALONG
    count = tl.full([], 0, tl.int32)
    start = 0
    while start < ALONG:
        n = start + tl.arange(0, BLOCK)
        some = tl.load(at + n * STRIDE, mask=n < ALONG, other=0)
        for j in tl.static_range(1, MERGED):
            some = some | tl.load(at + j * LINE_STRIDE + n * STRIDE, mask=n < ALONG, other=0)
        slot = count + tl.cumsum(some, 0) - 1
        tl.store(out + slot, n, mask=some > 0)
        count += tl.sum(some)
        start += BLOCK
    tl.store(COUNT + b * LINES + line, count)


@triton.jit
@no_type_check
def list_kernel(
    ORDER, LEAST, CUT, LISTS, T, START, C, S, KEYS, TOP_K, BLOCK: tl.constexpr,
):  # fmt: skip
    """The keys that one query takes, in the order of time."""
    row, b = place_of(tl.minimum(C, T - START))
    t = START + row
    at = ORDER + (b * C + row) * S
    out = LISTS + (b * T + t) * TOP_K
    least = tl.load(LEAST + b * T + t, mask=t < T, other=0x7FFFFFFF)
    cut = tl.load(CUT + b * T + t, mask=t < T, other=0)
    count = tl.full([], 0, tl.int32)
    start = 0
    while start < KEYS:
        m = start + tl.arange(0, BLOCK)
        order = tl.load(at + m, mask=m < KEYS, other=_LOWEST)
        taken = ((order > least) | ((order == least) & (m < cut))).to(tl.int32)
        slot = count + tl.cumsum(taken, 0) - 1
        tl.store(out + slot, m, mask=(taken > 0) & (slot < TOP_K) & (t < T))
        count += tl.sum(taken)
        start += BLOCK
