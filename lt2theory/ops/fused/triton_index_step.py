# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""DSA's indexer for one new token: scores of all keys, as whole numbers in their order."""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from lt2theory.ops.fused.triton_highest import turn_bits
from lt2theory.ops.fused.triton_overlap import let_next_start, overlaps, wait_for_last
from lt2theory.ops.fused.triton_place import IndexLayout
from lt2theory.ops.triton_grid import place_of

_TILE = 128
"""Keys of one program."""


@triton.jit
@no_type_check
def _score_kernel(
    P, INDEX_KEYS, LENGTH, ORDER, scale, stride, capacity, queries_at, weights_at,
    N: tl.constexpr, DI: tl.constexpr, BH: tl.constexpr, BI: tl.constexpr, BM: tl.constexpr,
    TILES: tl.constexpr, PREC: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """One program a row and tile of keys; writes whole numbers in the order of the scores."""
    tile, b = place_of(TILES)
    m = tile * BM + tl.arange(0, BM)
    wait_for_last(PDL)
    let_next_start(PDL)
    length = tl.load(LENGTH)
    if tile * BM < length:
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
    early, tiles = overlaps(order.device), triton.cdiv(capacity, _TILE)
    _score_kernel[(tiles * batch,)](
        projected, index_keys, length, order, (index.heads * width) ** -0.5, projected.stride(0),
        capacity, index.queries, index.weights,
        N=index.heads, DI=width, BH=max(16, triton.next_power_of_2(index.heads)),
        BI=max(16, triton.next_power_of_2(width)), BM=_TILE, TILES=tiles,
        PREC="ieee" if projected.dtype == torch.float32 else "tf32", PDL=early,
        num_warps=4, launch_pdl=early,
    )  # fmt: skip
    return order
