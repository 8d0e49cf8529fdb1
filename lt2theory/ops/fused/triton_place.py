# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""What an attention mixer prepares for one new token, written where it is kept.

Rotation, the norm of the indexer's key, keys and values at their place in the buffers, and the mean
of a block that this token completes: one kernel after the projections.
"""

from dataclasses import dataclass
from typing import no_type_check

import triton
import triton.language as tl
from torch import Tensor

from lt2theory.ops.fused.triton_overlap import let_next_start, overlaps, wait_for_last
from lt2theory.ops.triton_grid import place_of


@triton.jit
@no_type_check
def _rotated(a, b, FREQUENCIES, c, mask, position, ROPE: tl.constexpr):
    """Turn pairs of coordinates; a and b are float32, as the frequencies are."""
    x, y = a, b
    if ROPE:
        angle = position.to(tl.float32) * tl.load(FREQUENCIES + c, mask=mask, other=0.0)
        cos, sin = tl.cos(angle), tl.sin(angle)
        x = a * cos - b * sin
        y = b * cos + a * sin
    return x, y


@triton.jit
@no_type_check
def _keep_mean(
    BUFFER, POOLED, x, c, mask, b, g, place, position, capacity, blocks,
    G: tl.constexpr, D: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Mean of a block that this token (x, rounded) completes; earlier steps wrote the others."""
    if (position + 1) % SIZE == 0:
        total = x.to(tl.float32)
        i = 0
        while i < SIZE - 1:
            n = i + tl.arange(0, 16)
            before = b * capacity + place - (SIZE - 1) + n
            at = BUFFER + (before[:, None] * G + g) * D + c[None, :]
            some = (n < SIZE - 1)[:, None] & mask[None, :]
            total += tl.sum(tl.load(at, mask=some, other=0.0).to(tl.float32), 0)
            i += 16
        mean_at = POOLED + ((b * blocks + position // SIZE) * G + g) * D + c
        tl.store(mean_at, total / SIZE, mask=mask)


@triton.jit
@no_type_check
def _put(
    BUFFER, POOLED, x, c, mask, b, g, place, position, capacity, blocks,
    G: tl.constexpr, D: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Write channels c of one head, and their mean over the block if it is complete."""
    x = x.to(BUFFER.dtype.element_ty)
    tl.store(BUFFER + ((b * capacity + place) * G + g) * D + c, x, mask=mask)
    if SIZE > 0:
        _keep_mean(BUFFER, POOLED, x, c, mask, b, g, place, position, capacity, blocks,
                   G, D, SIZE)  # fmt: skip


# Every arm of the kernel below is a function: the arms of one `if` would have to agree on shapes.


@triton.jit
@no_type_check
def _place_key(
    at, KEYS, POOLED, TURNS, b, g, place, position, capacity, blocks,
    G: tl.constexpr, DK: tl.constexpr, SIZE: tl.constexpr, ROPE: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Rotate a key and write it."""
    c = tl.arange(0, BK)
    half: tl.constexpr = (DK + 1) // 2
    low, high = c < half, c < DK - half
    x = tl.load(at + c, mask=low, other=0.0).to(tl.float32)
    y = tl.load(at + half + c, mask=high, other=0.0).to(tl.float32)
    x, y = _rotated(x, y, TURNS, c, low, position, ROPE)
    _put(KEYS, POOLED, x, c, low, b, g, place, position, capacity, blocks, G, DK, SIZE)
    _put(KEYS, POOLED, y, half + c, high, b, g, place, position, capacity, blocks, G, DK, SIZE)


@triton.jit
@no_type_check
def _place_value(
    at, VALUES, POOLED, b, g, place, position, capacity, blocks,
    G: tl.constexpr, DV: tl.constexpr, SIZE: tl.constexpr, BV: tl.constexpr,
):  # fmt: skip
    """Write a value."""
    w = tl.arange(0, BV)
    v = tl.load(at + w, mask=w < DV, other=0.0)
    _put(VALUES, POOLED, v, w, w < DV, b, g, place, position, capacity, blocks, G, DV, SIZE)


@triton.jit
@no_type_check
def _place_index_key(
    at, to, GAIN, BIAS, TURNS, position, eps,
    DI: tl.constexpr, ROPE: tl.constexpr, BI: tl.constexpr,
):  # fmt: skip
    """Normalise the indexer's key, rotate it and write it."""
    i = tl.arange(0, BI)
    middle: tl.constexpr = (DI + 1) // 2
    lower, upper = i < middle, i < DI - middle
    x = tl.load(at + i, mask=lower, other=0.0).to(tl.float32)
    y = tl.load(at + middle + i, mask=upper, other=0.0).to(tl.float32)
    mean = (tl.sum(x, 0) + tl.sum(y, 0)) / DI
    x = tl.where(lower, x - mean, 0.0)
    y = tl.where(upper, y - mean, 0.0)
    scale = tl.rsqrt((tl.sum(x * x, 0) + tl.sum(y * y, 0)) / DI + eps)
    gain = tl.load(GAIN + i, mask=lower, other=0.0).to(tl.float32)
    x = x * scale * gain + tl.load(BIAS + i, mask=lower, other=0.0).to(tl.float32)
    gain = tl.load(GAIN + middle + i, mask=upper, other=0.0).to(tl.float32)
    y = y * scale * gain + tl.load(BIAS + middle + i, mask=upper, other=0.0).to(tl.float32)
    kind = to.dtype.element_ty
    x, y = x.to(kind).to(tl.float32), y.to(kind).to(tl.float32)
    x, y = _rotated(x, y, TURNS, i, lower, position, ROPE)
    tl.store(to + i, x.to(kind), mask=lower)
    tl.store(to + middle + i, y.to(kind), mask=upper)


@triton.jit
@no_type_check
def _rotate_in_place(at, TURNS, position, D: tl.constexpr, ROPE: tl.constexpr, B: tl.constexpr):
    """Rotate a query."""
    c = tl.arange(0, B)
    half: tl.constexpr = (D + 1) // 2
    x = tl.load(at + c, mask=c < half, other=0.0)
    y = tl.load(at + half + c, mask=c < D - half, other=0.0)
    p, q = _rotated(x.to(tl.float32), y.to(tl.float32), TURNS, c, c < half, position, ROPE)
    tl.store(at + c, p.to(x.dtype), mask=c < half)
    tl.store(at + half + c, q.to(x.dtype), mask=c < D - half)


@triton.jit
@no_type_check
def _place_kernel(
    P, KEYS, VALUES, POOLED_KEYS, POOLED_VALUES, INDEX_KEYS, GAIN, BIAS, TURNS, INDEX_TURNS,
    LENGTH, FIRST, eps, stride, capacity, blocks, index_q_at, index_k_at,
    H: tl.constexpr, G: tl.constexpr, DK: tl.constexpr, DV: tl.constexpr,
    DI: tl.constexpr, SIZE: tl.constexpr, ROPE: tl.constexpr, UNITS: tl.constexpr,
    BK: tl.constexpr, BV: tl.constexpr, BI: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """One program a row and head: of keys, values, the indexer's key, then what only rotates."""
    unit, b = place_of(UNITS)
    wait_for_last(PDL)
    let_next_start(PDL)
    length = tl.load(LENGTH)
    position = length - 1 - tl.load(FIRST + b)
    place = (length - 1) % capacity
    row = P + b * stride
    queries: tl.constexpr = 2 * G + (1 if DI > 0 else 0)
    if unit < G:
        _place_key(row + (H + unit) * DK, KEYS, POOLED_KEYS, TURNS, b, unit, place, position,
                   capacity, blocks, G, DK, SIZE, ROPE, BK)  # fmt: skip
    elif unit < 2 * G:
        _place_value(row + (H + G) * DK + (unit - G) * DV, VALUES, POOLED_VALUES, b, unit - G,
                     place, position, capacity, blocks, G, DV, SIZE, BV)  # fmt: skip
    elif unit >= queries:
        if unit < queries + H:
            _rotate_in_place(row + (unit - queries) * DK, TURNS, position, DK, ROPE, BK)
        elif DI > 0:
            _rotate_in_place(row + index_q_at + (unit - queries - H) * DI, INDEX_TURNS, position,
                             DI, ROPE, BI)  # fmt: skip
    elif DI > 0:
        to = INDEX_KEYS + (b * capacity + place) * DI
        _place_index_key(row + index_k_at, to, GAIN, BIAS, INDEX_TURNS, position, eps,
                         DI, ROPE, BI)  # fmt: skip


@dataclass(frozen=True)
class IndexLayout:
    """The indexer's part of a row of projections.

    Attributes:
        heads: Its heads n.
        width: Their width i.
        queries: Where its queries (n*i) begin.
        keys: Where its key (i) begins.
        weights: Where the weights of its heads (n) begin.
        gain: Weights of its key's norm `[i]`.
        bias: Bias of that norm `[i]`.
        eps: Epsilon of that norm.
    """

    heads: int
    width: int
    queries: int
    keys: int
    weights: int
    gain: Tensor
    bias: Tensor
    eps: float


def place_token(
    projected: Tensor,
    buffers: dict[str, Tensor],
    *,
    heads: int,
    length: Tensor,
    first: Tensor,
    turns: tuple[Tensor, Tensor] | None = None,
    index: IndexLayout | None = None,
    block_size: int = 0,
) -> None:
    """Rotate queries in place, and write keys, values, indexer's keys and means of blocks.

    Args:
        projected: `[b n]`: queries (h*k), keys (g*k), values (g*v), and the indexer's part.
        buffers: `keys` and `values` `[b capacity g ...]`, position n at place n modulo the
            capacity; with an indexer `index_keys` `[b capacity i]`; with blocks `pooled_keys` and
            `pooled_values` `[b c g ...]`, float32.
        heads: Query heads h.
        length: Tokens so far, this one included: int64 `[1]`.
        first: First real position of every row `[b]`, int64.
        turns: Rotary frequencies, float32, `[k/2]` and `[i/2]`; None for no rotation.
        index: The indexer, or None.
        block_size: Tokens of a block whose means are kept, 0 for none.
    """
    keys, values = buffers["keys"], buffers["values"]
    batch, capacity, groups, width = keys.shape
    wide, inner, count = values.shape[-1], 0, 0
    pooled = (buffers["pooled_keys"], buffers["pooled_values"]) if block_size else (keys, values)
    norm, index_keys = (keys, keys), keys
    if index is not None:
        norm, index_keys = (index.gain, index.bias), buffers["index_keys"]
        inner, count = index.width, index.heads
    units = 2 * groups + (index is not None) + (0 if turns is None else heads + count)
    early = overlaps(keys.device)
    _place_kernel[(units * batch,)](
        projected, keys, values, *pooled, index_keys, *norm,
        *((length, length) if turns is None else turns), length, first,
        0.0 if index is None else index.eps, projected.stride(0), capacity, pooled[0].shape[1],
        0 if index is None else index.queries, 0 if index is None else index.keys,
        H=heads, G=groups, DK=width, DV=wide, DI=inner, SIZE=block_size,
        ROPE=turns is not None, UNITS=units,
        BK=triton.next_power_of_2(-(-width // 2)), BV=triton.next_power_of_2(wide),
        BI=triton.next_power_of_2(max(1, -(-inner // 2))),
        PDL=early, num_warps=1, launch_pdl=early,
    )  # fmt: skip
