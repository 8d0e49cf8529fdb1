"""Native sparse attention whose selected keys our Triton kernel reads, and what kernels refuse.

Triton is imported when a backend runs, not with this module.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from lt2theory.ops.sparse.nsa_chunked import chunked_block_sparse
from lt2theory.ops.sparse.nsa_reference import BlockSparseProblem
from lt2theory.ops.workload import AttentionWorkload, is_interpreting

_WIDEST = 256


def triton_block_sparse(problem: BlockSparseProblem) -> Float[Tensor, "b t h v"]:
    """Native sparse attention; see `reference_block_sparse` for its meaning.

    Args:
        problem: The attention.

    Returns:
        The outputs, in the dtype of the queries.
    """
    from lt2theory.ops.sparse.triton_gathered import gathered_attention

    def read(start: int, stop: int, keys: Tensor, counts: Tensor) -> Tensor:
        q = problem.q[:, start:stop].unflatten(2, (problem.k.shape[2], -1))
        lists = torch.where(counts, keys, -1).int()
        return gathered_attention(q, problem.k, problem.v, lists, problem.scale)

    return chunked_block_sparse(problem, read)


def refuses(workload: AttentionWorkload) -> str | None:
    """What the kernel cannot do.

    Args:
        workload: The attention.

    Returns:
        The reason, or None.
    """
    if workload.device != "cuda" and not is_interpreting():
        return f"its kernel needs a CUDA device, the tensors are on {workload.device}"
    if workload.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return f"its kernel has no {workload.dtype}"
    if max(workload.key_width, workload.value_width) > _WIDEST:
        return f"heads wider than {_WIDEST} do not fit its tiles"
    return None


def declines(workload: AttentionWorkload) -> str | None:
    """What `auto` should not use the kernel for.

    Args:
        workload: The attention.

    Returns:
        The reason, or None.
    """
    if workload.device != "cuda":
        return "an interpreter is for tests"
    return None
