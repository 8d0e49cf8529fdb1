"""What a backend is chosen from (device, dtypes and shapes, never values), and what it is."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Self

import torch
from torch import Tensor

from lt2theory.ops.attention_reference import AttentionProblem
from lt2theory.ops.factors import FactorOrder, Factors

RecurrenceRunner = Callable[[Factors, Tensor | None], tuple[Tensor, Tensor]]
"""Factors and the state before them, or None for zero, to outputs and the state after them."""

AttentionRunner = Callable[[AttentionProblem], Tensor]
"""An attention to its outputs."""

_ARCHITECTURES = {7: "volta", 8: "ampere", 9: "hopper", 10: "blackwell", 12: "blackwell"}


@dataclass(frozen=True)
class RecurrenceWorkload:
    """What a backend of the recurrence is chosen from.

    Attributes:
        device: Device type (`cpu`, `cuda`).
        dtype: Dtype of the inputs.
        length: Tokens.
        num_factors: Factors a token.
        num_heads: Heads.
        key_width: Key width of a head.
        value_width: Value width of a head.
        decay: `none`, `scalar` (one a head) or `vector` (one a channel).
        erases: Whether there is a beta.
        order: The factor order.
        own_write: Whether there is a write strength of its own.
        gradients: Whether autograd records the inputs.
        tf32: Whether products of float32 may be rounded to TensorFloat-32 on a GPU: the caller
            runs under autocast to a half precision, or torch.get_float32_matmul_precision() is
            not `highest`.
        transformed: Whether a transform of torch.func (vmap, jvp) is active.
        architecture: Family of the GPU (`hopper`), or "" without one.
        device_index: Index of the GPU, 0 without one.
    """

    device: str
    dtype: torch.dtype
    length: int
    num_factors: int
    num_heads: int
    key_width: int
    value_width: int
    decay: str
    erases: bool
    order: FactorOrder
    own_write: bool = False
    gradients: bool = False
    tf32: bool = False
    transformed: bool = False
    architecture: str = ""
    device_index: int = 0

    @classmethod
    def of(cls, factors: Factors) -> "RecurrenceWorkload":
        """The workload that `factors` are.

        Args:
            factors: The inputs of a recurrence.

        Returns:
            Their workload.
        """
        decay = "none"
        if factors.log_decay is not None:
            decay = "vector" if factors.log_decay.dim() == factors.k.dim() else "scalar"
        device = factors.q.device
        index = device.index or 0
        return cls(
            device=device.type,
            dtype=factors.q.dtype,
            length=factors.q.shape[1],
            num_factors=factors.num_factors,
            num_heads=factors.q.shape[2],
            key_width=factors.k.shape[-1],
            value_width=factors.v.shape[-1],
            decay=decay,
            erases=factors.beta is not None,
            order=factors.order,
            own_write=factors.write is not None,
            gradients=_records(factors),
            tf32=_tf32_allowed(device.type),
            transformed=_is_transformed(),
            architecture=_architecture(index) if device.type == "cuda" else "",
            device_index=index,
        )


def _records(factors: Factors) -> bool:
    """Whether autograd needs derivatives of any of the factors."""
    tensors = (factors.q, factors.k, factors.v, factors.log_decay, factors.beta, factors.write)
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in tensors)


def _is_transformed() -> bool:
    """Whether a transform of torch.func is active."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def _tf32_allowed(device: str) -> bool:
    """Whether the caller asked for no more than TensorFloat-32 of float32 products."""
    if torch.get_float32_matmul_precision() != "highest":
        return True
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


@cache
def _architecture(index: int) -> str:
    """Family of a GPU: of NVIDIA's by compute capability, of others one name."""
    if torch.version.hip is not None:
        return "amd"
    major = torch.cuda.get_device_capability(index)[0]
    return _ARCHITECTURES.get(major, f"sm{major}x")


@dataclass(frozen=True)
class AttentionWorkload:
    """What a backend of the attention is chosen from.

    Attributes:
        device: Device type.
        dtype: Dtype of the inputs.
        length: Queries.
        num_keys: Keys.
        num_heads: Query heads.
        key_width: Key width of a head.
        value_width: Value width of a head.
        window: Keys that a query sees, or None for all.
        segmented: Whether there are segments.
        key_heads: Key heads.
        transformed: Whether a transform of torch.func (vmap, jvp) is active.
        device_index: Index of the GPU, 0 without one.
    """

    device: str
    dtype: torch.dtype
    length: int
    num_keys: int
    num_heads: int
    key_width: int
    value_width: int
    window: int | None
    segmented: bool
    key_heads: int = 1
    transformed: bool = False
    device_index: int = 0

    @classmethod
    def of(cls, problem: AttentionProblem, **added: int) -> Self:
        """The workload that `problem` is.

        Args:
            problem: The attention.
            added: What the workload of a sparse one has beside.

        Returns:
            Its workload.
        """
        return cls(
            device=problem.q.device.type,
            dtype=problem.q.dtype,
            length=problem.q.shape[1],
            num_keys=problem.k.shape[1],
            num_heads=problem.q.shape[2],
            key_width=problem.k.shape[3],
            value_width=problem.v.shape[3],
            window=problem.window,
            segmented=problem.query_segments is not None,
            key_heads=problem.k.shape[2],
            transformed=_is_transformed(),
            device_index=problem.q.device.index or 0,
            **added,
        )


def is_interpreting() -> bool:
    """Whether Triton's interpreter is on, which runs kernels on a CPU.

    Returns:
        Whether `TRITON_INTERPRET` is 1.
    """
    return os.environ.get("TRITON_INTERPRET", "0") == "1"


def not_by_itself(workload: RecurrenceWorkload, name: str) -> str | None:
    """Why `auto` takes no Triton kernels for a recurrence unless it was told that it may.

    Args:
        workload: What is to be computed.
        name: The backend, by which one may ask for them all the same.

    Returns:
        The reason, or None.
    """
    if workload.device == "cpu":
        return "Triton's interpreter is there for tests"
    if workload.dtype == torch.float32 and not workload.tf32:
        return (
            "float32 products would be rounded to TensorFloat-32; torch.set_float32_matmul_"
            f"precision('high'), autocast or the name '{name}' allow it"
        )
    return None
