# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Softmax attention of one new token to a cache of fixed capacity, in one kernel.

How much of the cache is in use is read on the device, so that one CUDA graph serves every length.
The keys are split among programs, and whichever program of a key head comes last joins what all
have found. The loop over tiles of keys is a `for` loop, since only those are pipelined: the loads
of the next tiles are under way while one is multiplied.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from lt2theory.ops.fused.triton_head_tiles import (
    cut_in_two,
    load_columns,
    store_columns,
    weigh_tile,
)
from lt2theory.ops.fused.triton_overlap import let_next_start, overlaps, wait_for_last
from lt2theory.ops.fused.triton_shares import join_shares
from lt2theory.ops.interpreting import whole_range
from lt2theory.ops.workload import is_interpreting

if is_interpreting():
    range = whole_range

_KEYS = 64
"""Keys of a tile at most."""
_TILE_BYTES = _KEYS * 576
"""Of the keys and values of a tile at most: a pair of the 1.3B models' in bfloat16 has 576."""
_PROGRAMS = 264
"""Two a multiprocessor of an H200: keys are split as long as there are no more."""
_MOST_SPLITS = 64


@triton.jit
@no_type_check
def _attention_kernel(
    Q, K, V, LENGTH, FIRST, LISTS, ACC, TOP, TOTAL, ARRIVED, OUT, scale, capacity, stride,
    N: tl.constexpr, GL: tl.constexpr, G: tl.constexpr, R: tl.constexpr,
    DK: tl.constexpr, DV: tl.constexpr, RING: tl.constexpr,
    BR: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, RK: tl.constexpr,
    BV: tl.constexpr, RV: tl.constexpr, WIDE: tl.constexpr,
    SPLITS: tl.constexpr, BS: tl.constexpr, PREC: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """One program a row, key head and share of the keys: softmax online over its share."""
    group = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    b = group // G
    g = group % G
    wait_for_last(PDL)
    let_next_start(PDL)
    length = tl.load(LENGTH).to(tl.int32)
    first = tl.load(FIRST + b).to(tl.int32)
    begin = 0
    end = tl.minimum(length, capacity)
    if N > 0:
        end = N
    elif not RING:
        begin = first // BN * BN  # nothing before it is seen
    share = tl.cdiv(tl.cdiv(end - begin, SPLITS), BN) * BN
    start = begin + split * share
    stop = tl.minimum(start + share, end)
    KEYS = K + (b * capacity * G + g) * DK
    VALUES = V + (b * capacity * G + g) * DV
    r = tl.arange(0, BR)
    Q_ROW = Q + b * stride + g * R * DK
    q = load_columns(Q_ROW, r * DK, r < R, 0, DK, BK)
    if RK > 0:
        q_rest = load_columns(Q_ROW, r * DK, r < R, BK, DK, RK)
    top = tl.full([BR], float("-inf"), tl.float32)
    total = tl.zeros([BR], tl.float32)
    acc = tl.zeros([BR, BV], tl.float32)
    acc_rest = tl.zeros([BR, RV if RV > 0 else 16], tl.float32)
    for i in range(start, stop, BN):
        n = i + tl.arange(0, BN)
        if N > 0:
            listed = LISTS + (b * GL + g % GL) * N
            n = tl.load(listed + n, mask=n < stop, other=-1)
            real = n >= 0
        else:
            # In a ring, place n holds the newest position that leaves the remainder n.
            position = length - 1 - (length - 1 - n) % capacity if RING else n
            real = (n < stop) & (position >= first)
        at_k = n.to(tl.int64) * (G * DK)
        at_v = n.to(tl.int64) * (G * DV)
        k = load_columns(KEYS, at_k, real, 0, DK, BK)
        s = tl.dot(q, tl.trans(k), input_precision=PREC)
        if RK > 0:
            k_rest = load_columns(KEYS, at_k, real, BK, DK, RK)
            s = tl.dot(q_rest, tl.trans(k_rest), s, input_precision=PREC)
        s = tl.where(real[None, :], s * scale, float("-inf"))
        p, shrink, top, total = weigh_tile(s, top, total)
        v = load_columns(VALUES, at_v, real, 0, DV, BV)
        p = p.to(v.dtype)
        acc = tl.dot(p, v, acc * shrink[:, None], input_precision=PREC)
        if RV > 0:
            v_rest = load_columns(VALUES, at_v, real, BV, DV, RV)
            acc_rest = tl.dot(p, v_rest, acc_rest * shrink[:, None], input_precision=PREC)
    head = group * R + r
    if SPLITS == 1:
        part = 1.0 / tl.where(total > 0, total, 1.0)[:, None]
        store_columns(OUT, head * DV, r < R, 0, acc * part, DV, BV)
        if RV > 0:
            store_columns(OUT, head * DV, r < R, BV, acc_rest * part, DV, RV)
    else:
        row = head * SPLITS + split
        tl.store(TOP + row, top, mask=r < R)
        tl.store(TOTAL + row, total, mask=r < R)
        store_columns(ACC, row * DV, r < R, 0, acc, DV, BV)
        if RV > 0:
            store_columns(ACC, row * DV, r < R, BV, acc_rest, DV, RV)
        # All stores of this program come before its arrival, all loads of the last one after it.
        tl.debug_barrier()
        if tl.atomic_add(ARRIVED + group, 1, sem="acq_rel") == SPLITS - 1:
            tl.store(ARRIVED + group, 0)
            for j in tl.range(0, R):
                join_shares(ACC, TOP, TOTAL, ACC, Q_ROW, OUT, b, g * R + j, 0, 0,
                            G * R, DV, WIDE, SPLITS, SPLITS, BS, False, False)  # fmt: skip


def decode_attention(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    length: Tensor,
    first: Tensor,
    *,
    lists: Tensor | None = None,
    ring: bool = False,
    scale: float | None = None,
    splits: int | None = None,
    arrived: Tensor | None = None,
) -> Tensor:
    """Attention of the newest token to what a cache of fixed capacity holds.

    Args:
        q: Its queries `[b h k]`.
        keys: `[b capacity g k]`, its own among them.
        values: `[b capacity g v]`.
        length: Tokens so far, itself included: an int64 tensor `[1]` on the device.
        first: First position that every row sees `[b]`, int64.
        lists: The places that are read `[b gl n]`, int32, negative where a list is shorter; one
            list a key head, or one for all (gl = 1). None reads all that is in use.
        ring: Place n holds the newest position that leaves the remainder n by the capacity: a
            window of that many tokens. Otherwise place n holds position n.
        scale: Factor on the scores, or None for `k ** -0.5`.
        splits: Shares that the keys are cut into; None fills the device.
        arrived: Counters `[b g]`, int32, all 0; they are 0 again afterwards. None makes some.

    Returns:
        `[b h v]` in the dtype of q.
    """
    batch, heads, width = q.shape
    capacity, groups, wide = keys.shape[1], keys.shape[2], values.shape[-1]
    most = capacity if lists is None else lists.shape[-1]
    if splits is None:
        filling = _PROGRAMS // max(1, batch * groups)
        splits = max(1, min(_MOST_SPLITS, filling, triton.cdiv(most, 2 * _KEYS)))
    of_one = heads // groups
    if q.stride()[1:] != (width, 1):
        q = q.contiguous()
    out = q.new_empty(batch, heads, wide)
    scratch = batch * heads * splits if splits > 1 else 1
    acc = q.new_empty(scratch, wide, dtype=torch.float32)
    top, total = (q.new_empty(scratch, dtype=torch.float32) for _ in range(2))
    if arrived is None:
        arrived = torch.zeros(batch, groups, dtype=torch.int32, device=q.device)
    (of_k, rest_k), (of_v, rest_v) = cut_in_two(width), cut_in_two(wide)
    early = overlaps(q.device)
    _attention_kernel[(batch * groups, splits)](
        q, keys, values, length, first, length if lists is None else lists.contiguous(),
        acc, top, total, arrived, out,
        width**-0.5 if scale is None else scale, capacity, q.stride(0),
        N=0 if lists is None else lists.shape[-1], GL=1 if lists is None else lists.shape[1],
        G=groups, R=of_one, DK=width, DV=wide, RING=ring,
        BR=max(16, triton.next_power_of_2(of_one)),
        BN=_keys_of_tile((width + wide) * keys.element_size()),
        BK=of_k, RK=rest_k, BV=of_v, RV=rest_v, WIDE=triton.next_power_of_2(wide),
        SPLITS=splits, BS=triton.next_power_of_2(splits),
        PREC="ieee" if q.dtype == torch.float32 else "tf32",
        PDL=early, num_warps=4, num_stages=3, launch_pdl=early,
    )  # fmt: skip
    return out


def _keys_of_tile(pair: int) -> int:
    """Keys of a tile where a key and its value have so many bytes: fewer for wide heads."""
    keys = _KEYS
    while keys > 16 and keys * pair > _TILE_BYTES:
        keys //= 2
    return keys
