# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Triton kernels that choose blocks of keys, and turn the choice round into lists of queries.

The choice of a query is kept as words: 16 bits for 16 blocks, and above them how many of the
blocks before those the query takes, so that every word by itself says in which slot of a query a
block is. Importing this module imports Triton.

One launch serves queries START to START + N - 1 of rows and key heads FIRST and on (`j` of them).

Axes: b batch, t queries, g key heads, r query heads of one, c complete blocks, k key width.
"""

from typing import no_type_check

import triton
import triton.language as tl

from lt2theory.ops.interpreting import whole_range
from lt2theory.ops.workload import is_interpreting

if is_interpreting():
    range = whole_range


@triton.jit
@no_type_check
def importance_kernel(
    Q, K, REST, LSE, HIGH, ORDER, scale, T, C, FIRST, START, N,
    G: tl.constexpr, R: tl.constexpr, SPLIT: tl.constexpr, DK: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, CK: tl.constexpr, PREC: tl.constexpr,
):  # fmt: skip
    """Compressed probabilities summed over query heads, as whole numbers in the same order.

    A tile in which no query may choose is left unwritten.
    """
    m = tl.program_id(0) * BN + tl.arange(0, BN)
    n = tl.program_id(1) * BM + tl.arange(0, BM)
    j = tl.program_id(2).to(tl.int64)
    b = (FIRST + j) // G
    g = (FIRST + j) % G
    t = START + n
    high = tl.load(HIGH + b * T + t, mask=n < N, other=0)
    if tl.program_id(0) * BN < tl.max(high, 0):
        key = (b * C + m) * G + g
        importance = tl.zeros([BM, BN], tl.float32)
        for r in range(0, R):
            row = ((b * T + t) * G + g) * R + r
            s = tl.zeros([BM, BN], tl.float32)
            for first in tl.static_range(0, DK, CK):
                c = first + tl.arange(0, CK)
                q_mask = (n < N)[:, None] & (c < DK)[None, :]
                q = tl.load(Q + row[:, None] * DK + c[None, :], mask=q_mask, other=0.0)
                at = key[:, None] * DK + c[None, :]
                k_mask = (m < C)[:, None] & (c < DK)[None, :]
                k = tl.load(K + at, mask=k_mask, other=0.0)
                s = tl.dot(q, tl.trans(k), acc=s, input_precision=PREC)
                if SPLIT:
                    rest = tl.load(REST + at, mask=k_mask, other=0.0)
                    s = tl.dot(q, tl.trans(rest), acc=s, input_precision=PREC)
            lse = tl.load(LSE + row, mask=n < N, other=float("inf"))
            importance += tl.exp2(s * scale - lse[:, None])
        # Of numbers that are not negative, the bits grow as the numbers do.
        bits = importance.to(tl.int32, bitcast=True)
        out = ORDER + (j * N + n[:, None]) * C + m[None, :]
        tl.store(out, bits, mask=(n < N)[:, None] & (m < C)[None, :])


@triton.jit
@no_type_check
def choice_kernel(
    ORDER, LOW, HIGH, WORDS, TAKEN, COUNT, T, C, FIRST, START, N, WIDTH, SLOTS,
    G: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """The SLOTS most important blocks of every query of a tile, the earlier of equal ones."""
    n = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1).to(tl.int64)
    b = (FIRST + j) // G
    t = START + n
    c = tl.arange(0, BC)
    low = tl.load(LOW + b * T + t, mask=n < N, other=0)
    high = tl.load(HIGH + b * T + t, mask=n < N, other=0)
    candidate = (c[None, :] >= low[:, None]) & (c[None, :] < high[:, None])
    order = tl.load(ORDER + (j * N + n[:, None]) * C + c[None, :], mask=candidate, other=-1)
    # The largest number that at least SLOTS blocks reach, bit by bit from the highest.
    least = tl.zeros([BM], tl.int32)
    count = tl.sum((order >= 0).to(tl.int32), 1)
    step = tl.full([], 2**30, tl.int32)
    while (step > 0) & (tl.max(count, 0) > SLOTS):
        more = least + step
        reach = tl.sum((order >= more[:, None]).to(tl.int32), 1)
        least = tl.where(reach >= SLOTS, more, least)
        count = tl.where(reach >= SLOTS, reach, count)
        step = step // 2
    above = order > least[:, None]
    tied = (order == least[:, None]).to(tl.int32)
    room = SLOTS - tl.sum(above.to(tl.int32), 1)
    first = (tied > 0) & (tl.cumsum(tied, 1) <= room[:, None])
    chosen = (above | first).to(tl.int32)
    tl.store(TAKEN + j * N + n, tl.sum(chosen, 1), mask=n < N)
    of_blocks = tl.sum(chosen, 0)
    tl.atomic_add(COUNT + j * C + c, of_blocks, mask=(c < C) & (of_blocks > 0), sem="relaxed")
    groups = tl.reshape(chosen, [BM, BC // 16, 16])
    bits = tl.sum(groups << tl.arange(0, 16)[None, None, :], 2)
    size = tl.sum(groups, 2)
    before = tl.cumsum(size, 1) - size
    word = tl.arange(0, BC // 16)
    out = WORDS + (j * WIDTH + word[None, :]) * N + n[:, None]
    tl.store(out, bits | (before << 16), mask=(n < N)[:, None] & (word < WIDTH)[None, :])


@triton.jit
@no_type_check
def list_kernel(
    WORDS, ENDS, LISTS, C, N, WIDTH, SLOTS, EARLIEST, SIZE, BLOCK: tl.constexpr,
):  # fmt: skip
    """For 16 blocks, who takes them: `query * SLOTS + slot`, in the order of queries.

    ENDS are the places after each block's list in one array of all. No query before EARLIEST, and
    SIZE for every further block, can take a block of this row.
    """
    j = tl.program_id(1).to(tl.int64)
    i = tl.arange(0, 16)
    c = tl.program_id(0) * 16 + i
    before = j * C + c - 1
    place = tl.load(ENDS + before, mask=(c < C) & (before >= 0), other=0)
    begin = tl.maximum(EARLIEST + tl.program_id(0) * 16 * SIZE, 0) // BLOCK * BLOCK
    for start in range(begin, N, BLOCK):
        n = start + tl.arange(0, BLOCK)
        word = tl.load(WORDS + (j * WIDTH + tl.program_id(0)) * N + n, mask=n < N, other=0)
        bits = (word[:, None] >> i[None, :]) & 1
        slot = (word >> 16)[:, None] + tl.cumsum(bits, 1) - bits
        at = place[None, :] + tl.cumsum(bits, 0) - bits
        tl.store(LISTS + at, n[:, None] * SLOTS + slot, mask=bits > 0)
        place += tl.sum(bits, 0)
