# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""DSA's indexer for one new token: scores of all keys, and the exact choice of the highest.

The choice bisects the scores as whole numbers in registers, without a sort. A long row is cut into
slices whose winners meet in a second round: in the order of their places, so that among equals the
earlier still goes first.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from lt2theory.ops.fused.triton_place import IndexLayout

HELD, _SLICE, _TILE = 2**15, 2**14, 128
"""Scores that one program can hold, that it holds where there are several, and scores a tile."""
_LOWEST, _HIGHEST = tl.constexpr(-(2**31)), tl.constexpr(2**31 - 1)


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
        tl.store(ORDER + b * capacity + m, bits ^ ((bits >> 31) & 0x7FFFFFFF), mask=m < length)


@triton.jit
@no_type_check
def _select_kernel(
    ORDER, PLACES, LENGTH, FIRST, OUT_ORDER, OUT, count,
    SLICE: tl.constexpr, K: tl.constexpr, BEGIN: tl.constexpr, END: tl.constexpr,
):  # fmt: skip
    """One program a slice and row. The first round (BEGIN) reads scores by place."""
    slices = tl.num_programs(0)
    b = tl.program_id(1).to(tl.int64)
    first = tl.load(FIRST + b)
    j = tl.arange(0, SLICE)
    at = tl.program_id(0) * SLICE + j
    if BEGIN:
        place = at
        seen = (at < count) & (at >= first) & (at < tl.load(LENGTH))
    else:
        place = tl.load(PLACES + b * count + at, mask=at < count, other=-1)
        seen = place >= 0
    # From here on the lowest number says that a place is not seen, which costs no register.
    order = tl.load(ORDER + b * count + at, mask=seen, other=_LOWEST)
    # The least number such that K or more are not below it, unless exactly K are not below another.
    found = tl.sum((order > _LOWEST).to(tl.int32), 0)
    low = tl.min(tl.where(order > _LOWEST, order, _HIGHEST), 0).to(tl.int64)
    high = tl.max(order, 0).to(tl.int64) + 1
    while (high - low > 1) & (found > K):
        middle = (low + high) >> 1
        reach = tl.sum((order >= middle.to(tl.int32)).to(tl.int32), 0)
        enough = reach >= K
        low = tl.where(enough, middle, low)
        high = tl.where(enough, high, middle)
        found = tl.where(enough, reach, found)
    least = low.to(tl.int32)
    above = (order > least).to(tl.int32)
    level = (order == least).to(tl.int32)
    room = K - tl.sum(above, 0)
    # Both counts in one running sum: of the higher ones below, of the equal ones above.
    counts = tl.cumsum(above + (level << 16), 0)
    equal = (counts >> 16) & 0xFFFF
    taken = (above > 0) | ((level > 0) & (equal <= room))
    slot = (counts & 0xFFFF) + tl.minimum(equal, room) - 1
    to = (b * slices + tl.program_id(0)) * K
    tl.store(OUT + to + slot, place - first.to(tl.int32) if END else place, mask=taken)
    if not END:
        tl.store(OUT_ORDER + to + slot, order, mask=taken)
    tl.store(OUT + to + j, -1, mask=(j >= tl.sum(taken.to(tl.int32), 0)) & (j < K))


def can_choose(capacity: int, top_k: int) -> bool:
    """Whether rounds of slices come to an end.

    Args:
        capacity: Places of the buffer.
        top_k: Keys that are taken.

    Returns:
        Whether `highest_places` takes them.
    """
    return capacity <= HELD or 4 * top_k <= _SLICE


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
    *,
    length: Tensor,
    first: Tensor,
    held: int = HELD,
    slice_size: int = _SLICE,
) -> Tensor:
    """The places with the highest numbers among those that a row sees, the earlier among equals.

    Args:
        order: Numbers by place `[b capacity]`, int32, above -2^31.
        top_k: Places that are taken, at most the capacity.
        length: Places in use: int64 `[1]`.
        first: First place that a row sees `[b]`, int64.
        held: Numbers that one program can hold, a power of 2.
        slice_size: Numbers of a slice of a longer row, a power of 2 of at least 4 `top_k`.

    Returns:
        `[b 1 top_k]`, int32, in order and counted from `first`; -1 where fewer are seen.
    """
    batch, places, begin = len(order), order, True
    while True:
        count = order.shape[1]
        end = count <= held
        size = max(triton.next_power_of_2(top_k), triton.next_power_of_2(count))
        size = size if end else slice_size
        slices = 1 if end else triton.cdiv(count, size)
        out = order.new_empty(batch, slices * top_k)
        out_order = out if end else torch.empty_like(out)
        _select_kernel[(slices, batch)](
            order, places, length, first, out_order, out, count,
            SLICE=size, K=top_k, BEGIN=begin, END=end,
            num_warps=4 if size <= 2048 else 8 if size <= 4096 else 16 if size <= 8192 else 32,
        )  # fmt: skip
        if end:
            return out[:, None]
        order, places, begin = out_order, out, False
