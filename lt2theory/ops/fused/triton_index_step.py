# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""DSA's indexer for one new token: scores of all keys, and the exact choice of the highest.

A long row is cut into slices, and whichever program of a row comes last chooses among the winners
of all: they stand in the order of their places, so that among equals the earlier still goes first.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from lt2theory.ops.fused.triton_highest import LOWEST, take_highest, turn_bits
from lt2theory.ops.fused.triton_place import IndexLayout

HELD, SLICE, _TILE = 2**15, 2**14, 128
"""Winners that the last program of a row can hold, scores that one program ranks, and of a tile."""


@triton.jit
@no_type_check
def _score_kernel(
    P, INDEX_KEYS, LENGTH, ORDER, scale, stride, capacity, queries_at, weights_at,
    N: tl.constexpr, DI: tl.constexpr, BH: tl.constexpr, BI: tl.constexpr, BM: tl.constexpr,
    PREC: tl.constexpr,
):  # fmt: skip
    """One program a row and tile of keys; writes whole numbers in the order of the scores."""
    b = tl.program_id(1).to(tl.int64)
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    length = tl.load(LENGTH)
    if tl.program_id(0) * BM < length:
        n = tl.arange(0, BH)
        i = tl.arange(0, BI)
        row = P + b * stride
        q_mask = (n < N)[None, :] & (i < DI)[:, None]
        q = tl.load(row + queries_at + n[None, :] * DI + i[:, None], mask=q_mask, other=0.0)
        weight = tl.load(row + weights_at + n, mask=n < N, other=0.0)
        # The mixer scales them in its own dtype.
        weight = (weight.to(tl.float32) * scale).to(weight.dtype).to(tl.float32)
        mask = (m < length)[:, None] & (i < DI)[None, :]
        k = tl.load(
            INDEX_KEYS + (b * capacity + m[:, None]) * DI + i[None, :], mask=mask, other=0.0
        )
        similar = tl.maximum(tl.dot(k, q, input_precision=PREC), 0.0)
        score = tl.sum(similar * weight[None, :], 1)
        score = tl.where(score == 0.0, 0.0, score)  # -0 ties with 0
        bits = score.to(tl.int32, bitcast=True)
        tl.store(ORDER + b * capacity + m, turn_bits(bits), mask=m < length)


@triton.jit
@no_type_check
def _keep(OUT, to, place, taken, slot, total, j, K: tl.constexpr):
    """Write what is taken to its slots, and -1 behind."""
    tl.store(OUT + to + slot, place, mask=taken)
    tl.store(OUT + to + j, -1, mask=(j >= total) & (j < K))


@triton.jit
@no_type_check
def _choice_kernel(
    ORDER, PLACES, LENGTH, FIRST, SOME_ORDER, SOME, ARRIVED, OUT, count,
    SLICE: tl.constexpr, SLICES: tl.constexpr, K: tl.constexpr, BEGIN: tl.constexpr,
    ALL: tl.constexpr,
):  # fmt: skip
    """One program a slice and row; with ALL numbers, the last of a row takes from all winners.

    The first round (BEGIN) reads numbers by place, a later one what the round before has left.
    """
    piece = tl.program_id(0)
    b = tl.program_id(1).to(tl.int64)
    first = tl.load(FIRST + b)
    j = tl.arange(0, SLICE)
    at = piece * SLICE + j
    if BEGIN:
        place = at
        seen = (at < count) & (at >= first) & (at < tl.load(LENGTH))
    else:
        place = tl.load(PLACES + b * count + at, mask=at < count, other=-1)
        seen = place >= 0
    # From here on the lowest number says that a place is not seen, which costs no register.
    order = tl.load(ORDER + b * count + at, mask=seen, other=LOWEST)
    taken, slot, total = take_highest(order, K, True)
    if SLICES == 1:
        _keep(OUT, b * K, place - first.to(tl.int32), taken, slot, total, j, K)
    else:
        to = (b * SLICES + piece) * K
        tl.store(SOME_ORDER + to + slot, order, mask=taken)
        _keep(SOME, to, place, taken, slot, total, j, K)
    if ALL > 0:
        # All stores of this program come before its arrival, and all loads of the last one after.
        tl.debug_barrier()
        if tl.atomic_add(ARRIVED + b, 1, sem="acq_rel") == SLICES - 1:
            tl.store(ARRIVED + b, 0)
            m = tl.arange(0, ALL)
            left = b * SLICES * K + m
            # Other programs wrote these: the first level of this one's cache may hold what was.
            there = m < SLICES * K
            whence = tl.load(SOME + left, mask=there, other=-1, cache_modifier=".cg")
            won = tl.load(SOME_ORDER + left, mask=whence >= 0, other=LOWEST, cache_modifier=".cg")
            chosen, to_slot, number = take_highest(won, K, True)
            whence = whence - first.to(tl.int32)
            _keep(OUT, b * K, whence, chosen, to_slot, number, m, K)


def can_choose(capacity: int, top_k: int) -> bool:
    """Whether rounds of slices come to an end.

    Args:
        capacity: Places of the buffer.
        top_k: Keys that are taken.

    Returns:
        Whether `highest_places` takes them.
    """
    return capacity <= HELD or 4 * top_k <= SLICE


def index_order(
    projected: Tensor, index_keys: Tensor, index: IndexLayout, *, length: Tensor
) -> Tensor:
    """Scores of all keys in use, as whole numbers in the same order.

    Args:
        projected: Rows with the indexer's queries and weights `[b n]`.
        index_keys: Its keys `[b capacity i]`.
        index: Where its parts stand.
        length: Tokens so far, the newest included: int64 `[1]`.

    Returns:
        `[b capacity]`, int32; what lies behind the length is anything.
    """
    batch, capacity, width = index_keys.shape
    order = torch.empty(batch, capacity, dtype=torch.int32, device=index_keys.device)
    _score_kernel[(triton.cdiv(capacity, _TILE), batch)](
        projected, index_keys, length, order, (index.heads * width) ** -0.5, projected.stride(0),
        capacity, index.queries, index.weights,
        N=index.heads, DI=width, BH=max(16, triton.next_power_of_2(index.heads)),
        BI=max(16, triton.next_power_of_2(width)), BM=_TILE,
        PREC="ieee" if projected.dtype == torch.float32 else "tf32",
        num_warps=4,
    )  # fmt: skip
    return order


def highest_places(
    order: Tensor,
    top_k: int,
    arrived: Tensor,
    *,
    length: Tensor,
    first: Tensor,
    held: int = HELD,
    slice_size: int = SLICE,
) -> Tensor:
    """The places with the highest numbers among those that a row sees, the earlier among equals.

    Args:
        order: Numbers by place `[b capacity]`, int32, above -2^31.
        top_k: Places that are taken, at most the capacity.
        arrived: Counters, int32, one a row at least, all 0; they are 0 again afterwards.
        length: Places in use: int64 `[1]`.
        first: First place that a row sees `[b]`, int64.
        held: Winners that the last program of a row can hold, a power of 2.
        slice_size: Numbers of a slice, a power of 2; where it is less than 4 `top_k`, `held` are.

    Returns:
        `[b 1 top_k]`, int32, in order and counted from `first`; -1 where fewer are seen.
    """
    batch, places, begin = len(order), order, True
    out = order.new_empty(batch, 1, top_k)
    while True:
        count = order.shape[1]
        size = slice_size if 4 * top_k <= slice_size else held
        size = min(size, triton.next_power_of_2(count))
        slices = triton.cdiv(count, size)
        end = slices == 1 or slices * top_k <= held
        some = order.new_empty(batch, slices * top_k if slices > 1 else 0)
        some_order = torch.empty_like(some)
        _choice_kernel[(slices, batch)](
            order, places, length, first, some_order, some, arrived, out, count,
            SLICE=size, SLICES=slices, K=top_k, BEGIN=begin,
            ALL=triton.next_power_of_2(slices * top_k) if end and slices > 1 else 0,
            num_warps=4 if size <= 2048 else 8 if size <= 4096 else 16 if size <= 8192 else 32,
        )  # fmt: skip
        if end:
            return out
        order, places, begin = some_order, some, False
