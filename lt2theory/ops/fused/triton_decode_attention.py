# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Softmax attention of one new token to a cache of fixed capacity.

How much of the cache is in use is read on the device, so that one CUDA graph serves every length.
The keys are split among programs, and a second kernel joins what they found.
"""

from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from lt2theory.ops.fused.triton_overlap import let_next_start, overlaps, wait_for_last
from lt2theory.ops.triton_softmax import add_tile

_KEYS_AT_A_TIME = 64


@triton.jit
@no_type_check
def _split_kernel(
    Q, K, V, LENGTH, FIRST, LISTS, ACC, TOP, TOTAL, scale, capacity, stride,
    N: tl.constexpr, GL: tl.constexpr, G: tl.constexpr, R: tl.constexpr,
    DK: tl.constexpr, DV: tl.constexpr, RING: tl.constexpr,
    BR: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr,
    SPLITS: tl.constexpr, PREC: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    """One program a row, key head and share of the keys: softmax online over its share."""
    group = tl.program_id(0).to(tl.int64)
    split = tl.program_id(1)
    b = group // G
    g = group % G
    wait_for_last(PDL)
    let_next_start(PDL)
    length = tl.load(LENGTH)
    first = tl.load(FIRST + b)
    begin = tl.zeros([], tl.int64)
    end = tl.minimum(length, capacity)
    if N > 0:
        end = begin + N
    elif not RING:
        begin = first // BN * BN  # nothing before it is seen
    share = tl.cdiv(tl.cdiv(end - begin, SPLITS), BN) * BN
    r = tl.arange(0, BR)
    c = tl.arange(0, BK)
    w = tl.arange(0, BV)
    q_mask = (r < R)[:, None] & (c < DK)[None, :]
    at_q = Q + b * stride + (g * R + r[:, None]) * DK + c[None, :]
    q = tl.load(at_q, mask=q_mask, other=0.0)
    top = tl.full([BR], float("-inf"), tl.float32)
    total = tl.zeros([BR], tl.float32)
    acc = tl.zeros([BR, BV], tl.float32)
    start = begin + split * share
    stop = tl.minimum(start + share, end)
    while start < stop:
        n = start + tl.arange(0, BN)
        if N > 0:
            listed = LISTS + (b * GL + g % GL) * N
            n = tl.load(listed + n, mask=n < stop, other=-1).to(tl.int64)
            real = n >= 0
        else:
            # In a ring, place n holds the newest position that leaves the remainder n.
            position = length - 1 - (length - 1 - n) % capacity if RING else n
            real = (n < stop) & (position >= first)
        at = (b * capacity + n) * G + g
        k_mask = real[:, None] & (c < DK)[None, :]
        k = tl.load(K + at[:, None] * DK + c[None, :], mask=k_mask, other=0.0)
        v_mask = real[:, None] & (w < DV)[None, :]
        v = tl.load(V + at[:, None] * DV + w[None, :], mask=v_mask, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision=PREC) * scale
        s = tl.where(real[None, :], s, float("-inf"))
        top, total, acc = add_tile(s, v, top, total, acc, False, PREC)
        start += BN
    row = (group * SPLITS + split) * R + r
    tl.store(TOP + row, top, mask=r < R)
    tl.store(TOTAL + row, total, mask=r < R)
    tl.store(ACC + row[:, None] * DV + w[None, :], acc, mask=(r < R)[:, None] & (w < DV)[None, :])


@triton.jit
@no_type_check
def _join_kernel(
    ACC, TOP, TOTAL, OUT,
    R: tl.constexpr, DV: tl.constexpr, BV: tl.constexpr, SPLITS: tl.constexpr, BS: tl.constexpr,
    PDL: tl.constexpr,
):  # fmt: skip
    """One program a row, key head and query head."""
    group = (tl.program_id(0) // R).to(tl.int64)
    r = tl.program_id(0) % R
    s = tl.arange(0, BS)
    w = tl.arange(0, BV)
    row = (group * SPLITS + s) * R + r
    wait_for_last(PDL)
    let_next_start(PDL)
    top = tl.load(TOP + row, mask=s < SPLITS, other=float("-inf"))
    total = tl.load(TOTAL + row, mask=s < SPLITS, other=0.0)
    highest = tl.max(top, 0)
    weight = tl.exp(top - tl.where(highest == float("-inf"), 0.0, highest))
    mask = (s < SPLITS)[:, None] & (w < DV)[None, :]
    acc = tl.load(ACC + row[:, None] * DV + w[None, :], mask=mask, other=0.0)
    whole = tl.sum(total * weight, 0)
    o = tl.sum(acc * weight[:, None], 0) / tl.where(whole > 0, whole, 1.0)
    place = (group * R + r) * DV + w
    tl.store(OUT + place, o.to(OUT.dtype.element_ty), mask=w < DV)


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

    Returns:
        `[b h v]` in the dtype of q.
    """
    batch, heads, width = q.shape
    capacity, groups, wide = keys.shape[1], keys.shape[2], values.shape[-1]
    most = capacity if lists is None else lists.shape[-1]
    if splits is None:
        splits = max(1, min(64, 264 // max(1, batch * groups), triton.cdiv(most, 128)))
    of_one = heads // groups
    if q.stride()[1:] != (width, 1):
        q = q.contiguous()
    out = q.new_empty(batch, heads, wide)
    acc = q.new_empty(batch * groups * splits * of_one, wide, dtype=torch.float32)
    top, total = (q.new_empty(len(acc), dtype=torch.float32) for _ in range(2))
    tile = max(16, triton.next_power_of_2(wide))
    early = overlaps(q.device)
    _split_kernel[(batch * groups, splits)](
        q, keys, values, length, first,
        length if lists is None else lists.contiguous(), acc, top, total,
        width**-0.5 if scale is None else scale, capacity, q.stride(0),
        N=0 if lists is None else lists.shape[-1], GL=1 if lists is None else lists.shape[1],
        G=groups, R=of_one, DK=width, DV=wide, RING=ring,
        BR=max(16, triton.next_power_of_2(of_one)), BN=_KEYS_AT_A_TIME,
        BK=max(16, triton.next_power_of_2(width)), BV=tile, SPLITS=splits,
        PREC="ieee" if q.dtype == torch.float32 else "tf32",
        PDL=early, num_warps=4, num_stages=3, launch_pdl=early,
    )  # fmt: skip
    _join_kernel[(batch * heads,)](
        acc, top, total, out,
        R=of_one, DV=wide, BV=tile, SPLITS=splits, BS=triton.next_power_of_2(splits),
        PDL=early, num_warps=1, launch_pdl=early,
    )  # fmt: skip
    return out
