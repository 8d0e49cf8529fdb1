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
def _count_bits(bits):
    """How many of 16 bits are set."""
    bits = bits - ((bits >> 1) & 0x5555)
    bits = (bits & 0x3333) + ((bits >> 2) & 0x3333)
    bits = (bits + (bits >> 4)) & 0x0F0F
    return (bits + (bits >> 8)) & 0x1F


@triton.jit
@no_type_check
def _set_before(bits):
    """Of 8 bits, how many below each are set: 8 numbers of 4 bits."""
    bits = (bits | (bits << 12)) & 0x000F000F
    bits = (bits | (bits << 6)) & 0x03030303
    bits = ((bits | (bits << 3)) & 0x11111111) << 4
    bits += bits << 4
    bits += bits << 8
    return bits + (bits << 16)


@triton.jit
@no_type_check
def choice_kernel(
    ORDER, LOW, HIGH, WORDS, TAKEN, T, C, FIRST, START, BEGIN, END, N, WIDTH, SLOTS,
    G: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """The SLOTS most important blocks of every query of a tile, the earlier of equal ones.

    It serves the queries BEGIN to END - 1 of N, none of which can take a block from BC on. Words
    from there on are left unwritten.
    """
    n = BEGIN + tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1).to(tl.int64)
    b = (FIRST + j) // G
    t = START + n
    c = tl.arange(0, BC)
    low = tl.load(LOW + b * T + t, mask=n < END, other=0)
    high = tl.load(HIGH + b * T + t, mask=n < END, other=0)
    candidate = (c[None, :] >= low[:, None]) & (c[None, :] < high[:, None])
    # What is loaded is a few blocks more, in whole vectors.
    some = (c < tl.cdiv(tl.max(high, 0), 16) * 16) & (c < C)
    at = ORDER + (j * N + n[:, None]) * C + c[None, :]
    order = tl.load(at, mask=(n < END)[:, None] & some[None, :], other=-1)
    order = tl.where(candidate, order, -1)
    # SLOTS or more blocks reach `least`, fewer reach any number above `most`, until exactly SLOTS
    # reach `least` or the two are one. Halves between bits are near halves between scores.
    found = tl.sum((order >= 0).to(tl.int32), 1)
    tl.store(TAKEN + j * N + n, tl.minimum(found, SLOTS), mask=n < END)
    least = tl.min(tl.where(order >= 0, order, 0x7FFFFFFF), 1)
    most = tl.max(order, 1)
    undecided = (found > SLOTS) & (most > least)
    while tl.max(undecided.to(tl.int32), 0) > 0:
        middle = most - (most - least) // 2
        reach = tl.sum((order >= middle[:, None]).to(tl.int32), 1)
        enough = reach >= SLOTS
        found = tl.where(undecided & enough, reach, found)
        least = tl.where(undecided & enough, middle, least)
        most = tl.where(undecided & (reach < SLOTS), middle - 1, most)
        undecided = (found > SLOTS) & (most > least)
    if tl.max(found, 0) > SLOTS:
        tied = (order == least[:, None]).to(tl.int32)
        room = SLOTS - tl.sum((order > least[:, None]).to(tl.int32), 1)
        late = (tied > 0) & (tl.cumsum(tied, 1) > room[:, None])
        order = tl.where(late, -1, order)
    bits = tl.where(order >= least[:, None], (1 << (c % 16))[None, :], 0)
    bits = tl.sum(tl.reshape(bits, [BM, BC // 16, 16]), 2)
    size = _count_bits(bits)
    before = tl.cumsum(size, 1) - size
    word = tl.arange(0, BC // 16)
    out = WORDS + (j * WIDTH + word[None, :]) * N + n[:, None]
    tl.store(out, bits | (before << 16), mask=(n < END)[:, None] & (word < WIDTH)[None, :])


@triton.jit
@no_type_check
def _words_of_tile(WORDS, N, WIDTH, EARLIEST, SIZE, BLOCK: tl.constexpr):
    """One word of every query of a tile, and the queries; 0 where all its blocks are too late."""
    n = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.program_id(2).to(tl.int64) * WIDTH + tl.program_id(1)
    first = EARLIEST + tl.program_id(1) * 16 * SIZE
    return tl.load(WORDS + at * N + n, mask=(n < N) & (n >= first), other=0), n


@triton.jit
@no_type_check
def count_kernel(WORDS, COUNTS, C, N, WIDTH, EARLIEST, SIZE, BLOCK: tl.constexpr):
    """For 16 blocks, how many queries of a tile take each: COUNTS `[j c tile]`.

    No query before EARLIEST, and SIZE for every further block, can take a block of this row.
    """
    words, _ = _words_of_tile(WORDS, N, WIDTH, EARLIEST, SIZE, BLOCK)
    i = tl.arange(0, 16)
    c = tl.program_id(1) * 16 + i
    counts = tl.sum((words[:, None] >> i[None, :]) & 1, 0)
    row = tl.program_id(2).to(tl.int64) * C + c
    tl.store(COUNTS + row * tl.num_programs(0) + tl.program_id(0), counts, mask=c < C)


@triton.jit
@no_type_check
def list_kernel(
    WORDS, PLACES, LISTS, C, N, WIDTH, SLOTS, EARLIEST, SIZE, BLOCK: tl.constexpr,
):  # fmt: skip
    """For 16 blocks, who of a tile takes them: `query * SLOTS + slot`, in the order of queries.

    PLACES are the running sums of the counts of tiles, over all that `count_kernel` wrote.
    """
    words, n = _words_of_tile(WORDS, N, WIDTH, EARLIEST, SIZE, BLOCK)
    if tl.max(words & 0xFFFF, 0) > 0:
        i = tl.arange(0, 8)
        # Bits of 8 blocks below, of the next 8 above, so that one running sum counts both.
        pairs = words & 0xFF | (words & 0xFF00) << 8
        pairs = (pairs[:, None] >> i[None, :]) & 0x10001
        before = tl.cumsum(pairs, 0) - pairs
        entry = n * SLOTS + (words >> 16)
        for half in tl.static_range(0, 2):
            c = tl.program_id(1) * 16 + half * 8 + i
            at = (tl.program_id(2).to(tl.int64) * C + c) * tl.num_programs(0) + tl.program_id(0)
            place = tl.load(PLACES + at - 1, mask=(c < C) & (at > 0), other=0)
            to = place[None, :] + ((before >> (16 * half)) & 0xFFFF)
            bits = (words >> (8 * half)) & 0xFF
            slot = (_set_before(bits)[:, None] >> (4 * i)[None, :]) & 0xF
            taken = (pairs & (1 << (16 * half))) > 0
            tl.store(LISTS + to, entry[:, None] + slot, mask=taken)
            entry += _count_bits(bits)
