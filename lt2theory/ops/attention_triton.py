"""Attention inside a window through our Triton kernels, and what they refuse.

A window is a run of keys that ends with the query's own, so the kernels are those of the runs of
native sparse attention (`sparse.triton_span`). They read heads where they lie, where `chunked`
copies every block of keys behind the one before it. Memory grows with the length; all sums have a
fixed order. The backward pass computes the scores again from two numbers a query, as
FlashAttention-2 does (Dao, arXiv 2307.08691).

Triton is imported when a backend runs, not with this module.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from lt2theory.ops.attention_chunked import chunked_attention
from lt2theory.ops.attention_reference import AttentionProblem
from lt2theory.ops.selftest import find_verdict, known_verdict
from lt2theory.ops.selftest_attention import AttentionClass
from lt2theory.ops.sparse import span_launch
from lt2theory.ops.sparse.nsa_parts import Branch, Gradients, whole
from lt2theory.ops.sparse.nsa_spans import Window
from lt2theory.ops.sparse.tiling import Heads
from lt2theory.ops.triton_delta.route import is_installed
from lt2theory.ops.workload import AttentionWorkload, is_interpreting

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_WIDEST = 256

# Verdicts of the self-test are kept under this name: another number when the kernels change.
_KERNEL = "window 2"


def triton_attention(problem: AttentionProblem) -> Float[Tensor, "b t h v"]:
    """Attention inside a window; see `reference_attention` for its meaning.

    A window that cuts nothing off is none, and torch's fused kernel is faster there: that and
    empty problems go to `chunked_attention`. First derivatives only.

    Args:
        problem: The attention.

    Returns:
        The outputs, in the dtype of the queries. Gradients have a fixed order of sums.
    """
    covers = problem.window is None or problem.window >= problem.k.shape[1]
    if covers or problem.q.numel() == 0 or problem.v.numel() == 0:
        return chunked_attention(problem)
    assert problem.window is not None
    given = (problem.query_segments, problem.key_segments)
    window = Window(problem.window, *(None if x is None else x.contiguous() for x in given))
    # torch leaves `apply` without types.
    o: Tensor = _Windowed.apply(  # type: ignore[no-untyped-call]
        problem.q, problem.k, problem.v, problem.scale, window
    )
    return o


class _Windowed(torch.autograd.Function):
    """Keeps the outputs and one number a query."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, scale: float, window: Window) -> Tensor:
        q, k, v = (x.contiguous() for x in (q, k, v))
        heads = Heads(q, k, v, scale)
        o = q.new_empty(*q.shape[:3], v.shape[3])
        lse = q.new_empty(q.shape[:3], dtype=torch.float32)
        span_launch.attend(Branch(0, heads, None, window), o, lse, whole(heads))
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.scale, ctx.window = scale, window
        return o

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, o, lse = ctx.saved_tensors
        heads = Heads(q, k, v, ctx.scale)
        branch = Branch(0, heads, None, ctx.window)
        dots = torch.empty_like(lse)[..., None]
        dq, dk, dv = (torch.empty_like(x) for x in (q, k, v))
        gradients = Gradients(grad.contiguous(), None, dots, dq, dk, dv, result=o)
        span_launch.add_query_gradient(branch, gradients, lse, whole(heads), add=False)
        # After the queries', which write the dots.
        span_launch.add_key_gradient(branch, gradients, lse, add=False)
        return dq, dk, dv, None, None


def lacks(workload: AttentionWorkload) -> str | None:
    """What the kernels are none of.

    Args:
        workload: The attention.

    Returns:
        The reason, or None.
    """
    if workload.window is None:
        return "its kernels are for windows alone"
    return None


def refuses(workload: AttentionWorkload) -> str | None:
    """What the kernels cannot do.

    Args:
        workload: The attention.

    Returns:
        The reason and what to do, or None.
    """
    if not is_installed():
        return "triton is not installed (pip install 'lt2theory')"
    if workload.device != "cuda" and not is_interpreting():
        return f"its kernels need a CUDA device, the tensors are on {workload.device}"
    if workload.dtype not in _DTYPES:
        return f"its kernels have no {workload.dtype}; ask for 'chunked'"
    if max(workload.key_width, workload.value_width) > _WIDEST:
        return f"heads wider than {_WIDEST} do not fit their tiles"
    if workload.transformed:
        return "it cannot be transformed by torch.func; ask for 'reference'"
    return None


def declines(workload: AttentionWorkload) -> str | None:
    """What `auto` should not use the kernels for.

    No more queries than a window has keys, as in a decode step or a short prompt: torch's fused
    kernel then reads them once, without copies by blocks.

    Args:
        workload: The attention, which they can run.

    Returns:
        The reason, or None.
    """
    if workload.device != "cuda":
        return "an interpreter is for tests"
    if workload.window is not None and workload.length <= workload.window:
        return f"{workload.length} queries are no more than the window's {workload.window} keys"
    verdict = find_verdict(AttentionClass.of(_KERNEL, workload), triton_attention)
    return None if verdict.passed else str(verdict)


def describe(workload: AttentionWorkload) -> str | None:
    """The verdict on the kernels, once `auto` has asked for it.

    Args:
        workload: The attention.

    Returns:
        It as text, or None.
    """
    return known_verdict(AttentionClass.of(_KERNEL, workload))
