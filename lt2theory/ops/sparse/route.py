"""What our kernels of the sparse attentions cannot do, and what `auto` does not take them for."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from lt2theory.ops.selftest import KernelClass, find_verdict, known_verdict
from lt2theory.ops.sparse.dsa_triton import (
    listed_indexed_attention,
    masked_indexed_attention,
    prefers_lists,
)
from lt2theory.ops.sparse.selftest import BlockSparseClass, IndexedClass
from lt2theory.ops.sparse.triton_backend import triton_block_sparse
from lt2theory.ops.sparse.workloads import BlockSparseWorkload, IndexedWorkload
from lt2theory.ops.triton_delta.route import is_installed
from lt2theory.ops.workload import AttentionWorkload, is_interpreting

_DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_WIDEST = 256

# Verdicts of the self-test are kept under these names: another number when the kernels change.
_NATIVE, _TILES, _LISTS = "NSA 1", "DSA by tiles 1", "DSA by lists 1"


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


def declines_native(workload: BlockSparseWorkload) -> str | None:
    """What `auto` should not use the kernels of native sparse attention for.

    Args:
        workload: The attention, which they can run.

    Returns:
        The reason, or None.
    """
    return _objection(workload, BlockSparseClass.of(_NATIVE, workload), triton_block_sparse)


def describe_native(workload: BlockSparseWorkload) -> str | None:
    """The verdict on the kernels of native sparse attention, once `auto` has asked for it.

    Args:
        workload: The attention.

    Returns:
        It as text, or None.
    """
    return known_verdict(BlockSparseClass.of(_NATIVE, workload))


def declines_indexed(workload: IndexedWorkload) -> str | None:
    """What `auto` should not use the kernels of DeepSeek sparse attention for.

    Args:
        workload: The attention, which they can run.

    Returns:
        The reason, or None.
    """
    if workload.device == "cuda" and workload.top_k >= workload.num_keys:
        return None  # there is nothing to choose, and none of these kernels runs
    lists = prefers_lists(workload)
    run = listed_indexed_attention if lists else masked_indexed_attention
    return _objection(workload, _indexed(workload), run)


def describe_indexed(workload: IndexedWorkload) -> str | None:
    """The verdict on the kernels of DeepSeek sparse attention, once `auto` has asked for it.

    Args:
        workload: The attention.

    Returns:
        It as text, or None.
    """
    return known_verdict(_indexed(workload))


def _indexed(workload: IndexedWorkload) -> IndexedClass:
    """The class of what lists or tiles compute."""
    return IndexedClass.of(_LISTS if prefers_lists(workload) else _TILES, workload)


def _objection(
    workload: AttentionWorkload, shape: KernelClass[Any], run: Callable[[Any], Tensor]
) -> str | None:
    """Why `auto` does not take kernels: no GPU, or their self-test."""
    if workload.device != "cuda":
        return "an interpreter is for tests"
    verdict = find_verdict(shape, run)
    return None if verdict.passed else str(verdict)
