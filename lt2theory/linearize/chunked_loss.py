"""Losses of logits, a few tokens at a time: `[tokens x vocabulary]` is never whole, in no pass.

Each chunk's logits are made, judged and turned into gradients of the head's inputs and weights at
once, in the forward pass. Backward only scales what was kept: `[tokens x width]` and the size of
the head. (The idea is that of fused linear cross-entropies, such as Liger's, arXiv 2410.10989.)
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from lt2theory.mixers.base import at_least_float32
from lt2theory.training.passes import LOGITS_AT_ONCE

Judge = Callable[[Tensor, slice], tuple[Tensor, Tensor]]
"""From logits `[c vocab]`, at least float32, and the tokens that they belong to, to the sum of the
losses (a scalar) and a row of further sums, without gradients."""


def chunked_loss(
    h: Float[Tensor, "n d"],
    weight: Float[Tensor, "vocab d"],
    judge: Judge,
    *,
    chunk: int | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, " sums"]]:
    """Sum of a loss over tokens, from what the head reads.

    Args:
        h: Inputs of the head, at least one token.
        weight: Its weights.
        judge: What is made of the logits; it must not read `h` or `weight` by itself.
        chunk: Tokens at a time; None is as many as `LOGITS_AT_ONCE` allows.

    Returns:
        The sum, with gradients for `h` and `weight`, and the further sums, without; both in at
        least float32. Logits are products in autocast's dtype where that is on.

    Raises:
        ValueError: There is no token, or `chunk` is below 1.
    """
    if not len(h):
        raise ValueError("h: got no token (must be >= 1)")
    size = max(1, LOGITS_AT_ONCE // len(weight)) if chunk is None else chunk
    if size < 1:
        raise ValueError(f"chunk: {size} must be >= 1")
    found: tuple[Tensor, Tensor] = _ChunkedLoss.apply(h, weight, judge, size)  # type: ignore[no-untyped-call]
    return found


class _ChunkedLoss(torch.autograd.Function):
    """Gradients are made in forward, while the logits are there."""

    @staticmethod
    def forward(
        ctx: Any, h: Tensor, weight: Tensor, judge: Judge, size: int
    ) -> tuple[Tensor, Tensor]:
        """Judge chunk after chunk; keep the gradients."""
        dtype = head_dtype(h)
        head = weight.detach().to(dtype)
        wants_h, wants_weight = ctx.needs_input_grad[:2]
        dh = torch.empty_like(h) if wants_h else None
        dw = torch.zeros_like(weight) if wants_weight else None
        totals, sums = [], []
        with torch.autocast(h.device.type, enabled=False):
            for begin in range(0, len(h), size):
                part = slice(begin, begin + size)
                x = h[part].detach().to(dtype)
                total, row, slope = _judged(x @ head.T, judge, part)
                totals.append(total)
                sums.append(row)
                if dh is not None:
                    dh[part] = slope.to(dtype) @ head
                if dw is not None:
                    dw += slope.to(dtype).T @ x
        ctx.gradients = dh, dw
        added = torch.stack(sums).sum(0)
        ctx.mark_non_differentiable(added)
        return torch.stack(totals).sum(), added

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, total: Tensor, sums: Tensor) -> tuple[Tensor | None, ...]:
        """Scale them."""
        dh, dw = ctx.gradients
        del ctx.gradients
        scaled = (None if g is None else g.mul_(total.to(g.dtype)) for g in (dh, dw))
        return (*scaled, None, None)


def _judged(raw: Tensor, judge: Judge, part: slice) -> tuple[Tensor, Tensor, Tensor]:
    """The sum, the further sums, and the gradient of the first for the logits."""
    with torch.enable_grad():
        logits = at_least_float32(raw).requires_grad_()
        total, row = judge(logits, part)
        (slope,) = torch.autograd.grad(total, logits)
    return total.detach(), row.detach(), slope


def head_dtype(h: Float[Tensor, "n d"]) -> torch.dtype:
    """The dtype in which logits are multiplied.

    Args:
        h: Inputs of the head.

    Returns:
        Autocast's where that is on, that of the inputs elsewhere.
    """
    kind = h.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else h.dtype
