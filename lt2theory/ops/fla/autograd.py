"""What the backward pass of FLA's kernels needs around it.

FLA's backward functions launch kernels whose results autograd knows nothing of: a gradient of a
gradient would be zero without a word. And on some machines FLA stops its own backward pass, by a
module constant, where it is known to be wrong; where a self-test found it right, that constant is
turned while this backward pass runs, and only then, so that other users of FLA keep the guard.

Both are done by identities in the graph: the one behind the kernel is the first to run in the
backward pass, the one in front of it the last.
"""

import threading
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from lt2theory.ops.fla.kernels import Steps


def first_order_only(steps: Steps, lift_guard: bool) -> Steps:
    """The same inputs, with a backward pass that refuses to be differentiated.

    Args:
        steps: Inputs of a kernel.
        lift_guard: Whether the outputs go through `guard_lifted`; the guard is put back here.

    Returns:
        The inputs in the graph, or the same object where no gradient is recorded.
    """
    tensors = {f.name: getattr(steps, f.name) for f in fields(steps)}
    tensors = {name: x for name, x in tensors.items() if isinstance(x, Tensor)}
    if not torch.is_grad_enabled() or not any(x.requires_grad for x in tensors.values()):
        return steps
    passed = _Front.apply(lift_guard, *tensors.values())  # type: ignore[no-untyped-call]
    return replace(steps, **dict(zip(tensors, passed, strict=True)))


def guard_lifted(output: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """The same outputs, with a backward pass that begins by lifting FLA's guard.

    Args:
        output: Output of a kernel whose inputs went through `first_order_only`.
        state: Its state.

    Returns:
        The outputs in the graph.
    """
    if output.grad_fn is None and state.grad_fn is None:
        return output, state
    behind: tuple[Tensor, Tensor] = _Behind.apply(output, state)  # type: ignore[no-untyped-call]
    return behind


class _Guard:
    """FLA's guard against its issue 640, down while any backward pass of ours runs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0

    def lift(self) -> None:
        self._count(1)

    def put_back(self) -> None:
        self._count(-1)

    def _count(self, change: int) -> None:
        from fla.ops.common import chunk_o

        with self._lock:
            self._running = max(0, self._running + change)
            if self._running == (1 if change > 0 else 0):
                # The name says what FLA takes to be right, not which Triton is installed.
                chunk_o.TRITON_ABOVE_3_7_1 = change > 0


_GUARD = _Guard()


class _Front(torch.autograd.Function):
    """Identity on the inputs; the last to run in the backward pass."""

    @staticmethod
    def forward(ctx: Any, lift_guard: bool, *inputs: Tensor) -> tuple[Tensor, ...]:
        ctx.lift_guard = lift_guard
        return tuple(x.view_as(x) for x in inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        if ctx.lift_guard:
            _GUARD.put_back()
        if torch.is_grad_enabled():
            raise ValueError(
                "backend 'fla' has first derivatives only; ask for 'chunked' where create_graph "
                "is set"
            )
        return (None, *gradients)


class _Behind(torch.autograd.Function):
    """Identity on the outputs; the first to run in the backward pass."""

    @staticmethod
    def forward(ctx: Any, *outputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(x.view_as(x) for x in outputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        _GUARD.lift()
        return gradients
