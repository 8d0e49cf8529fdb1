# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Triton kernels that choose blocks of keys.

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
from lt2theory.ops.triton_grid import place_of
from lt2theory.ops.workload import is_interpreting

if is_interpreting():
    range = whole_range


@triton.jit
@no_type_check
def _pieces(Q, row, inside, DK: tl.constexpr, CK: tl.constexpr):
    """Rows of queries, cut into tiles of CK numbers."""
    pieces = ()
    for first in tl.static_range(0, DK, CK):
        c = first + tl.arange(0, CK)
        mask = inside[:, None] & (c < DK)[None, :]
        pieces += (tl.load(Q + row[:, None] * DK + c[None, :], mask=mask, other=0.0),)
    return pieces


@triton.jit
@no_type_check
def _scores(
    pieces, K, REST, key, real, BM: tl.constexpr, BN: tl.constexpr,
    SPLIT: tl.constexpr, DK: tl.constexpr, CK: tl.constexpr, PREC: tl.constexpr,
):  # fmt: skip
    """Products of a tile of queries and a tile of keys, which may come in two numbers."""
    s = tl.zeros([BM, BN], tl.float32)
    for first in tl.static_range(0, DK, CK):
        c = first + tl.arange(0, CK)
        at = key[:, None] * DK + c[None, :]
        mask = real[:, None] & (c < DK)[None, :]
        k = tl.load(K + at, mask=mask, other=0.0)
        s = tl.dot(pieces[first // CK], tl.trans(k), acc=s, input_precision=PREC)
        if SPLIT:
            rest = tl.load(REST + at, mask=mask, other=0.0)
            s = tl.dot(pieces[first // CK], tl.trans(rest), acc=s, input_precision=PREC)
    return s


@triton.jit
@no_type_check
def importance_kernel(
    Q, K, REST, LSE, LOW, HIGH, ORDER, LEAST, MOST, scale, T, C, FIRST, START, N, SLOTS,
    G: tl.constexpr, R: tl.constexpr, SPLIT: tl.constexpr, DK: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, CK: tl.constexpr, STEPS: tl.constexpr, PREC: tl.constexpr,
):  # fmt: skip
    """Compressed probabilities summed over query heads, as whole numbers in the same order.

    What a query may not choose is -1; a tile in which no query may choose is left unwritten. SLOTS
    or more blocks of a query reach LEAST, at least as many as may be chosen of fewer, and none is
    above MOST.
    """
    # The last queries have the most blocks and start first.
    tiles = tl.cdiv(N, BM)
    tile, j = place_of(tiles)
    n = (tiles - 1 - tile) * BM + tl.arange(0, BM)
    b = (FIRST + j) // G
    g = (FIRST + j) % G
    t = START + n
    low = tl.load(LOW + b * T + t, mask=n < N, other=0)
    high = tl.load(HIGH + b * T + t, mask=n < N, other=0)
    row = ((b * T + t) * G + g) * R
    if R == 1:
        pieces = _pieces(Q, row, n < N, DK, CK)
        lse = tl.load(LSE + row, mask=n < N, other=float("inf"))
    # The two highest of all blocks in the same column of a tile.
    best = tl.full([BM, BN], -1, tl.int32)
    second = tl.full([BM, BN], -1, tl.int32)
    for start in range(0, tl.max(high, 0), BN):
        m = start + tl.arange(0, BN)
        key = (b * C + m) * G + g
        if R == 1:
            s = _scores(pieces, K, REST, key, m < C, BM, BN, SPLIT, DK, CK, PREC)
            importance = tl.exp2(s * scale - lse[:, None])
        else:
            importance = tl.zeros([BM, BN], tl.float32)
            for r in range(0, R):
                some = _pieces(Q, row + r, n < N, DK, CK)
                total = tl.load(LSE + row + r, mask=n < N, other=float("inf"))
                s = _scores(some, K, REST, key, m < C, BM, BN, SPLIT, DK, CK, PREC)
                importance += tl.exp2(s * scale - total[:, None])
        # Of numbers that are not negative, the bits grow as the numbers do.
        order = importance.to(tl.int32, bitcast=True) & 0x7FFFFFFF
        candidate = (m[None, :] >= low[:, None]) & (m[None, :] < high[:, None])
        order = tl.where(candidate, order, -1)
        out = ORDER + (j * N + n[:, None]) * C + m[None, :]
        tl.store(out, order, mask=(n < N)[:, None] & (m < C)[None, :])
        second = tl.maximum(second, tl.minimum(best, order))
        best = tl.maximum(best, order)
    # What SLOTS of some blocks reach, SLOTS of all reach.
    most = tl.max(best, 1)
    tl.store(MOST + j * N + n, most, mask=n < N)
    least = tl.min(tl.where(best >= 0, best, 0x7FFFFFFF), 1)
    least = tl.where(tl.sum((best >= 0).to(tl.int32), 1) >= SLOTS, least, 0)
    if tl.max(high - low, 0) > SLOTS:
        for _ in range(0, STEPS):
            middle = most - (most - least) // 2
            reach = (best >= middle[:, None]).to(tl.int32)
            reach = tl.sum(reach + (second >= middle[:, None]).to(tl.int32), 1)
            least = tl.where(reach >= SLOTS, middle, least)
            most = tl.where(reach >= SLOTS, most, middle - 1)
    tl.store(LEAST + j * N + n, tl.maximum(least, 0), mask=n < N)


@triton.jit
@no_type_check
def count_bits(bits):
    """How many of 16 bits are set."""
    bits = bits - ((bits >> 1) & 0x5555)
    bits = (bits & 0x3333) + ((bits >> 2) & 0x3333)
    bits = (bits + (bits >> 4)) & 0x0F0F
    return (bits + (bits >> 8)) & 0x1F


@triton.jit
@no_type_check
def choice_kernel(
    ORDER, LEAST, MOST, LOW, HIGH, WORDS, TAKEN,
    T, C, FIRST, START, BEGIN, END, N, WIDTH, SLOTS,
    G: tl.constexpr, BM: tl.constexpr, BC: tl.constexpr,
):  # fmt: skip
    """The SLOTS most important blocks of every query of a tile, the earlier of equal ones.

    It serves the queries BEGIN to END - 1 of N, none of which can take a block from BC on. Words
    from there on are left unwritten.
    """
    tile, j = place_of(tl.cdiv(END - BEGIN, BM))
    n = BEGIN + tile * BM + tl.arange(0, BM)
    b = (FIRST + j) // G
    t = START + n
    c = tl.arange(0, BC)
    low = tl.load(LOW + b * T + t, mask=n < END, other=0)
    high = tl.load(HIGH + b * T + t, mask=n < END, other=0)
    tl.store(TAKEN + j * N + n, tl.minimum(high - low, SLOTS), mask=n < END)
    # What is loaded is a few blocks more, in whole vectors.
    some = (c[None, :] < (tl.cdiv(high, 16) * 16)[:, None]) & (c < C)[None, :]
    at = ORDER + (j * N + n[:, None]) * C + c[None, :]
    order = tl.load(at, mask=some, other=-1)
    # SLOTS or more blocks reach `least`, fewer reach any number above `most`, until exactly SLOTS
    # reach `least` or the two are one. Halves between bits are near halves between scores. Few are
    # too many at first, so most steps are small; every third is half of what is left.
    least = tl.load(LEAST + j * N + n, mask=n < END, other=0x7FFFFFFF)
    most = tl.load(MOST + j * N + n, mask=n < END, other=-1)
    found = tl.sum((order >= least[:, None]).to(tl.int32), 1)
    undecided = (found > SLOTS) & (most > least)
    turn = tl.max(found, 0) * 0
    while tl.max(undecided.to(tl.int32), 0) > 0:
        step = most - least
        middle = least + tl.where(turn % 3 == 2, step - step // 2, tl.maximum(step >> 3, 1))
        reach = tl.sum((order >= middle[:, None]).to(tl.int32), 1)
        enough = reach >= SLOTS
        found = tl.where(undecided & enough, reach, found)
        least = tl.where(undecided & enough, middle, least)
        most = tl.where(undecided & (reach < SLOTS), middle - 1, most)
        undecided = (found > SLOTS) & (most > least)
        turn += 1
    if tl.max(found, 0) > SLOTS:
        tied = (order == least[:, None]).to(tl.int32)
        room = SLOTS - tl.sum((order > least[:, None]).to(tl.int32), 1)
        late = (tied > 0) & (tl.cumsum(tied, 1) > room[:, None])
        order = tl.where(late, -1, order)
    bits = tl.where(order >= least[:, None], (1 << (c % 16))[None, :], 0)
    bits = tl.sum(tl.reshape(bits, [BM, BC // 16, 16]), 2)
    size = count_bits(bits)
    before = tl.cumsum(size, 1) - size
    word = tl.arange(0, BC // 16)
    out = WORDS + (j * WIDTH + word[None, :]) * N + n[:, None]
    tl.store(out, bits | (before << 16), mask=(n < END)[:, None] & (word < WIDTH)[None, :])
