# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Triton kernels for what the chunks of a delta rule need of no state, all chunks at once.

See `lt2theory.ops.triton_delta.ahead`. Importing this module imports Triton. Axes: c steps of a
chunk, k key width.
"""

from typing import no_type_check

import triton
import triton.language as tl

from lt2theory.ops.triton_delta.triton_chunk import (
    decays_of,
    load_gates,
    load_rows,
    unit_lower_inverse,
    whole_dot,
)
from lt2theory.ops.triton_delta.triton_parts import store_parts


@triton.jit(do_not_specialize=["T", "F", "FIRST", "COUNT", "scale"])
@no_type_check
def prepare_kernel(
    Q, K, DECAY, BETA, WRITE, KEYS, QUERIES, PAIRS, BELOW, GATES,
    T, F, FIRST, COUNT, scale,
    H: tl.constexpr, DK: tl.constexpr, B1: tl.constexpr, B2: tl.constexpr, LOG: tl.constexpr,
    KEY_PARTS: tl.constexpr, READ_PARTS: tl.constexpr,
    DECAYS: tl.constexpr, ERASES: tl.constexpr, WRITES: tl.constexpr,
):  # fmt: skip
    """One program a chunk of a sequence and head, from chunk FIRST on.

    Keys and queries are two tiles, so that 96 are 64 and 32; what fills the second one up is zero.
    Writes them in parts, `scale q_i k_j decay` of every pair, `beta_i k_i k_j decay` of those below
    the diagonal, and five numbers a step: erase and write strength, the decays to the chunk's end
    and in total, and the factor on what is read of the state.
    """
    C: tl.constexpr = 1 << LOG
    WIDTH: tl.constexpr = B1 + B2
    place = tl.program_id(0).to(tl.int64)
    stream = place // COUNT
    chunk = FIRST + place % COUNT
    batch = stream // H
    head = stream % H
    steps = T * F
    i = tl.arange(0, C)
    step = chunk * C + i
    real = step < steps
    reads = real & (step % F == F - 1)
    row = (batch * steps + chunk * C) * H + head
    token = (batch * T + chunk * C // F) * H + head
    later = step // F - chunk * C // F
    raw, beta, write = load_gates(
        DECAY + row, BETA + row, WRITE + row, i * H, real, DECAYS, ERASES, WRITES, C
    )
    between, start, end, total, _ = decays_of(raw, C)
    gates = GATES + place * (5 * C) + i
    tl.store(gates, beta * start)
    tl.store(gates + C, write)
    tl.store(gates + 2 * C, end)
    tl.store(gates + 3 * C, scale * start)
    tl.store(gates + 4 * C, total + tl.zeros([C], tl.float32))
    c = tl.arange(0, B1)
    at = i[:, None] * WIDTH + c[None, :]
    k = load_rows(K + row * DK, i * (H * DK), real, c, DK)
    q = load_rows(Q + token * DK, later * (H * DK), reads, c, DK)
    store_parts(KEYS + place * (KEY_PARTS * C * WIDTH), k, at, C * WIDTH, KEY_PARTS)
    store_parts(QUERIES + place * (READ_PARTS * C * WIDTH), q, at, C * WIDTH, READ_PARTS)
    pairs = tl.dot(q, tl.trans(k), input_precision="tf32")
    if ERASES:
        gram = whole_dot(k, tl.trans(k))
    if B2 > 0:
        c2 = B1 + tl.arange(0, B2)
        at2 = i[:, None] * WIDTH + c2[None, :]
        k2 = load_rows(K + row * DK, i * (H * DK), real, c2, DK)
        q2 = load_rows(Q + token * DK, later * (H * DK), reads, c2, DK)
        store_parts(KEYS + place * (KEY_PARTS * C * WIDTH), k2, at2, C * WIDTH, KEY_PARTS)
        store_parts(QUERIES + place * (READ_PARTS * C * WIDTH), q2, at2, C * WIDTH, READ_PARTS)
        pairs += tl.dot(q2, tl.trans(k2), input_precision="tf32")
        if ERASES:
            gram += whole_dot(k2, tl.trans(k2))
    square = i[:, None] * C + i[None, :]
    pairs = scale * pairs * between
    store_parts(PAIRS + place * (READ_PARTS * C * C), pairs, square, C * C, READ_PARTS)
    if ERASES:
        below = tl.where(i[:, None] > i[None, :], beta[:, None] * gram * between, 0.0)
        tl.store(BELOW + place * (C * C) + square, below)


@triton.jit
@no_type_check
def _load_block(P, row, column, C: tl.constexpr):
    """A block of 16 x 16 of a matrix of C columns."""
    i = tl.arange(0, 16)
    return tl.load(P + (row * 16 + i)[:, None] * C + column * 16 + i[None, :])


@triton.jit
@no_type_check
def _store_block(P, x, row, column, C: tl.constexpr, PARTS: tl.constexpr):
    """The reverse of `_load_block`, in parts."""
    i = tl.arange(0, 16)
    store_parts(P, x, (row * 16 + i)[:, None] * C + column * 16 + i[None, :], C * C, PARTS)


@triton.jit
@no_type_check
def _pair_inverse(P, first, C: tl.constexpr):
    """The inverse of two blocks on the diagonal and one below: its first, second and lower."""
    a = unit_lower_inverse(_load_block(P, first, first, C), 4)
    b = unit_lower_inverse(_load_block(P, first + 1, first + 1, C), 4)
    return a, b, -whole_dot(whole_dot(b, _load_block(P, first + 1, first, C)), a)


@triton.jit
@no_type_check
def inverse_kernel(BELOW, INVERSES, LOG: tl.constexpr, PARTS: tl.constexpr):
    """One program a chunk, of one warp: `(I + below)^-1` by blocks of 16 steps, in parts.

    Of two blocks on the diagonal with inverses X and Y and L below the first, the inverse has
    `-Y L X` there; pairs of pairs alike. In float32 no digit is cut on the way.
    """
    C: tl.constexpr = 1 << LOG
    place = tl.program_id(0).to(tl.int64)
    L = BELOW + place * (C * C)
    X = INVERSES + place * (PARTS * C * C)
    for row in tl.static_range(C // 16):
        for column in tl.static_range(C // 16):
            if column > row:
                _store_block(X, tl.zeros([16, 16], tl.float32), row, column, C, PARTS)
    x00, x11, x10 = _pair_inverse(L, 0, C)
    _store_block(X, x00, 0, 0, C, PARTS)
    _store_block(X, x11, 1, 1, C, PARTS)
    _store_block(X, x10, 1, 0, C, PARTS)
    if LOG == 6:
        x22, x33, x32 = _pair_inverse(L, 2, C)
        _store_block(X, x22, 2, 2, C, PARTS)
        _store_block(X, x33, 3, 3, C, PARTS)
        _store_block(X, x32, 3, 2, C, PARTS)
        l21 = _load_block(L, 2, 1, C)
        l31 = _load_block(L, 3, 1, C)
        y = whole_dot(_load_block(L, 2, 0, C), x00) + whole_dot(l21, x10)
        z = whole_dot(_load_block(L, 3, 0, C), x00) + whole_dot(l31, x10)
        _store_block(X, -whole_dot(x22, y), 2, 0, C, PARTS)
        _store_block(X, -whole_dot(x32, y) - whole_dot(x33, z), 3, 0, C, PARTS)
        y = whole_dot(l21, x11)
        z = whole_dot(l31, x11)
        _store_block(X, -whole_dot(x22, y), 2, 1, C, PARTS)
        _store_block(X, -whole_dot(x32, y) - whole_dot(x33, z), 3, 1, C, PARTS)
