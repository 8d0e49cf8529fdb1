# mypy: disable-error-code="no-untyped-def,untyped-decorator"
"""Triton kernels for attention of every query to its own list of keys.

What DeepSeek sparse attention reads from its indexer's choice is this one op; FLA has it for groups
of 16 query heads and more only, and not for single keys. Memory grows with the lists, never with
queries times keys. Importing this module imports Triton.

Axes: b batch, t queries, m keys, g key heads, r query heads of one, n keys a list, k and v widths.
"""

from typing import Any, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int32
from torch import Tensor
from torch.autograd.function import once_differentiable

from lt2theory.ops.triton_grid import place_of
from lt2theory.ops.triton_softmax import add_tile, finish

_KEYS_AT_A_TIME = 32


@triton.jit
@no_type_check
def _forward_kernel(
    Q, K, V, LISTS, OUT, LSE, scale, T, M,
    N: tl.constexpr, G: tl.constexpr, GL: tl.constexpr, R: tl.constexpr,
    DK: tl.constexpr, DV: tl.constexpr,
    BR: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, PREC: tl.constexpr,
):  # fmt: skip
    """One program a query and key head: all its query heads read one list, softmax online."""
    t, head = place_of(T)
    b = head // G
    g = head % G
    row = (b * T + t) * G + g
    r = tl.arange(0, BR)
    c = tl.arange(0, BK)
    w = tl.arange(0, BV)
    q_mask = (r < R)[:, None] & (c < DK)[None, :]
    q = tl.load(Q + (row * R + r[:, None]) * DK + c[None, :], mask=q_mask, other=0.0)
    keys = LISTS + ((b * T + t) * GL + g % GL) * N
    top = tl.full([BR], float("-inf"), tl.float32)
    total = tl.zeros([BR], tl.float32)
    acc = tl.zeros([BR, BV], tl.float32)
    for start in range(0, N, BN):
        n = start + tl.arange(0, BN)
        key = tl.load(keys + n, mask=n < N, other=-1)
        read = key >= 0
        at = (b * M + key) * G + g
        k_mask = read[:, None] & (c < DK)[None, :]
        k = tl.load(K + at[:, None] * DK + c[None, :], mask=k_mask, other=0.0)
        v_mask = read[:, None] & (w < DV)[None, :]
        v = tl.load(V + at[:, None] * DV + w[None, :], mask=v_mask, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision=PREC) * scale
        s = tl.where(read[None, :], s, float("-inf"))
        top, total, acc = add_tile(s, v, top, total, acc, False, PREC)
    o, lse = finish(top, total, acc, False)
    o_mask = (r < R)[:, None] & (w < DV)[None, :]
    tl.store(
        OUT + (row * R + r[:, None]) * DV + w[None, :], o.to(OUT.dtype.element_ty), mask=o_mask
    )
    tl.store(LSE + row * R + r, lse, mask=r < R)


@triton.jit
@no_type_check
def _backward_kernel(
    Q, K, V, LISTS, DO, LSE, DELTA, DQ, DK_OUT, DV_OUT, scale, T, M,
    N: tl.constexpr, G: tl.constexpr, GL: tl.constexpr, R: tl.constexpr,
    DK: tl.constexpr, DV: tl.constexpr,
    BR: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, BV: tl.constexpr, PREC: tl.constexpr,
):  # fmt: skip
    """The probabilities again; gradients of keys and values are added where they came from."""
    t, head = place_of(T)
    b = head // G
    g = head % G
    row = (b * T + t) * G + g
    r = tl.arange(0, BR)
    c = tl.arange(0, BK)
    w = tl.arange(0, BV)
    q_mask = (r < R)[:, None] & (c < DK)[None, :]
    o_mask = (r < R)[:, None] & (w < DV)[None, :]
    q = tl.load(Q + (row * R + r[:, None]) * DK + c[None, :], mask=q_mask, other=0.0)
    do = tl.load(DO + (row * R + r[:, None]) * DV + w[None, :], mask=o_mask, other=0.0)
    lse = tl.load(LSE + row * R + r, mask=r < R, other=float("inf"))
    delta = tl.load(DELTA + row * R + r, mask=r < R, other=0.0)
    keys = LISTS + ((b * T + t) * GL + g % GL) * N
    dq = tl.zeros([BR, BK], tl.float32)
    for start in range(0, N, BN):
        n = start + tl.arange(0, BN)
        key = tl.load(keys + n, mask=n < N, other=-1)
        read = key >= 0
        at = (b * M + key) * G + g
        k_mask = read[:, None] & (c < DK)[None, :]
        k = tl.load(K + at[:, None] * DK + c[None, :], mask=k_mask, other=0.0)
        v_mask = read[:, None] & (w < DV)[None, :]
        v = tl.load(V + at[:, None] * DV + w[None, :], mask=v_mask, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision=PREC) * scale
        p = tl.where(read[None, :], tl.exp(s - lse[:, None]), 0.0)
        dp = tl.dot(do, tl.trans(v), input_precision=PREC)
        ds = p * (dp - delta[:, None]) * scale
        dq += tl.dot(ds.to(k.dtype), k, input_precision=PREC)
        dk = tl.dot(tl.trans(ds).to(q.dtype), q, input_precision=PREC)
        dv = tl.dot(tl.trans(p).to(do.dtype), do, input_precision=PREC)
        tl.atomic_add(DK_OUT + at[:, None] * DK + c[None, :], dk, mask=k_mask)
        tl.atomic_add(DV_OUT + at[:, None] * DV + w[None, :], dv, mask=v_mask)
    tl.store(DQ + (row * R + r[:, None]) * DK + c[None, :], dq.to(DQ.dtype.element_ty), mask=q_mask)


class _GatheredAttention(torch.autograd.Function):
    """Joins both kernels for autograd; first derivatives only."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, lists: Tensor, scale: float) -> Tensor:
        q, k, v, lists = (x.contiguous() for x in (q, k, v, lists))
        o = q.new_empty(*q.shape[:-1], v.shape[-1])
        lse = q.new_empty(q.shape[:-1], dtype=torch.float32)
        _launch(_forward_kernel, q, k, v, lists, (o, lse), scale)
        ctx.save_for_backward(q, k, v, lists, o, lse)
        ctx.scale = scale
        return o

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, lists, o, lse = ctx.saved_tensors
        grad = grad.contiguous()
        delta = (grad.float() * o.float()).sum(-1)
        dq = torch.empty_like(q)
        # Many queries read one key, so its gradient is a sum in float32, in no fixed order.
        dk, dv = (torch.zeros_like(x, dtype=torch.float32) for x in (k, v))
        _launch(_backward_kernel, q, k, v, lists, (grad, lse, delta, dq, dk, dv), ctx.scale)
        return dq, dk.to(k.dtype), dv.to(v.dtype), None, None


def _launch(
    kernel: Any,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    lists: Tensor,
    others: tuple[Tensor, ...],
    scale: float,
) -> None:
    batch, length, groups, heads, width = q.shape
    values, count = v.shape[-1], lists.shape[-1]
    if q.numel() == 0:
        return
    kernel[(length * batch * groups,)](
        q, k, v, lists, *others, scale, length, k.shape[1],
        N=count, G=groups, GL=lists.shape[2], R=heads, DK=width, DV=values,
        BR=max(16, triton.next_power_of_2(heads)),
        BN=_KEYS_AT_A_TIME,
        BK=max(16, triton.next_power_of_2(width)),
        BV=max(16, triton.next_power_of_2(values)),
        PREC="ieee" if q.dtype == torch.float32 else "tf32",
        num_warps=2 if max(width, values) <= 64 else 4,
        num_stages=2,
    )  # fmt: skip


def gathered_attention(
    q: Float[Tensor, "b t g r k"],
    k: Float[Tensor, "b m g k"],
    v: Float[Tensor, "b m g v"],
    lists: Int32[Tensor, "b t gl n"],
    scale: float,
) -> Float[Tensor, "b t g r v"]:
    """Softmax attention of every query to the keys in its list.

    Sums run in float32; float32 inputs are multiplied without TF32. The gradient of keys and values
    adds in no fixed order, so it is not the same to the last bit from run to run.

    Args:
        q: Queries, float32, bfloat16 or float16.
        k: Keys, in the dtype of q.
        v: Values, in the dtype of q.
        lists: Keys of every query by their place in `0..m-1`, negative where a list is shorter;
            one list a key head, or one for all (gl = 1). No key may stand in a list twice.
        scale: Factor on the scores.

    Returns:
        The outputs in the dtype of q; zero for an empty list.
    """
    o: Tensor = _GatheredAttention.apply(q, k, v, lists, scale)  # type: ignore[no-untyped-call]
    return o
