"""The public native sparse attention: checks its arguments, chooses a backend, runs it."""

import torch
from torch import Tensor

from lt2theory.ops.attention_checks import check_heads, check_segments
from lt2theory.ops.autocast import own_precision
from lt2theory.ops.reference import state_dtype
from lt2theory.ops.registry import Backend, Choice, Registry
from lt2theory.ops.sparse.nsa_chunked import chunked_block_sparse
from lt2theory.ops.sparse.nsa_reference import (
    BlockAttentionRunner,
    BlockSparseProblem,
    reference_block_sparse,
)
from lt2theory.ops.sparse.route import declines_native, describe_native, refuses
from lt2theory.ops.sparse.triton_backend import triton_block_sparse
from lt2theory.ops.sparse.workloads import BlockSparseWorkload, block_sparse_workload

BLOCK_ATTENTIONS: Registry[BlockSparseWorkload, BlockAttentionRunner] = Registry(
    "native_sparse_attention",
    (
        Backend(
            name="triton",
            load=lambda: triton_block_sparse,
            merit="reads a block once for all queries that select it; first derivatives only",
            refuses=refuses,
            declines=declines_native,
            describes=describe_native,
        ),
        Backend(
            name="chunked",
            load=lambda: chunked_block_sparse,
            merit="gathers the selected blocks by chunks of queries; first derivatives only",
        ),
        Backend(
            name="reference",
            load=lambda: reference_block_sparse,
            merit="dense masks, any dtype, any derivative",
        ),
    ),
)
"""Backends of `native_sparse_attention`."""

# Annotated as plain tensors for the reason given in lt2theory.ops.recurrence.


def native_sparse_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    gates: Tensor,
    *,
    block_size: int,
    num_blocks: int,
    window: int | None = None,
    scale: int | float | None = None,
    query_segments: Tensor | None = None,
    key_segments: Tensor | None = None,
    backend: str = "auto",
) -> Tensor:
    """`o = g_1 compressed + g_2 selected + g_3 window`, three attentions over the same k and v.

    From Yuan et al., arXiv 2502.11089. Blocks have `block_size` tokens and count from the first
    token of the query's segment.

    - compressed: attention to the mean key and mean value of every complete block that ends no
      later than the query; zero while there is none (NSA, equation 7, with the mean for phi).
    - selected: attention to the tokens of `num_blocks` blocks. The query's own block, up to the
      query, is always one of them; the others are the complete earlier blocks with the largest
      importance, which is the compressed probability summed over the query heads that share the
      key head (equations 8 to 12 with equal block sizes), the earlier of equal ones. The choice
      carries no gradient.
    - window: attention to the last `window` tokens, the query's own among them.

    FLA 0.6.0 (`fla.ops.nsa`) agrees in the compressed and the window branch and, given the same
    blocks, in the selected one. It differs in the choice: it always selects the first block and
    the one before the query's as well, and there the probability is averaged over the heads,
    which ranks alike. Its kernels need a power of 2, at least 16, of query heads a key head.

    The last query and the last key are the same token, as in `softmax_attention`. Backends compute
    scores and sums in at least float32. A rounding error may choose between two blocks whose
    importance is equal but for it. `reference` has second derivatives, `chunked` has not.

    Args:
        q: Queries `[batch, L, head, key width]`.
        k: Keys `[batch, M >= L, key head, key width]`; the key heads divide the heads, and each
            serves as many consecutive query heads.
        v: Values `[batch, M, key head, value width]`.
        gates: Weights of the three branches `[batch, L, head, 3]`, in the dtype of q or float32.
        block_size: Tokens of a block, at least 1.
        num_blocks: Blocks that a query selects, its own among them, at least 1.
        window: Tokens of the window branch, at least 1; None for the whole past.
        scale: Factor on the scores, or None for `key width ** -0.5`.
        query_segments: Segment of every query `[batch, L]`, int64: the last L of `key_segments`,
            which are what is read.
        key_segments: Segment of every key `[batch, M]`, int64; each run of equal ids is one
            segment, and nothing is read from another. Negative ids are padding, whose outputs are
            exactly zero.
        backend: A name in `BACKENDS`.

    Returns:
        The outputs `[batch, L, head, value width]` in the dtype of q.

    Raises:
        ValueError: If an argument has a wrong shape, dtype, device, value or name.
    """
    check_heads(q, k, v)
    _check_gates(gates, q)
    sizes = {"block_size": block_size, "num_blocks": num_blocks, "window": window}
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")
    check_segments(query_segments, key_segments, q, k)
    runs = None if key_segments is None else _runs(key_segments)
    problem = BlockSparseProblem(
        q,
        k,
        v,
        window=window,
        scale=q.shape[-1] ** -0.5 if scale is None else float(scale),
        query_segments=None if runs is None else runs[:, k.shape[1] - q.shape[1] :],
        key_segments=runs,
        gates=gates,
        block_size=block_size,
        num_blocks=num_blocks,
    )
    runner = explain_block_attention(problem, backend=backend).backend.load()
    with own_precision(q.device):
        return runner(problem)


def explain_block_attention(
    problem: BlockSparseProblem, *, backend: str = "auto"
) -> Choice[BlockSparseWorkload, BlockAttentionRunner]:
    """Which backend would run this native sparse attention, and why.

    Args:
        problem: The attention.
        backend: A name in `BACKENDS`.

    Returns:
        The choice; `str()` of it is one line for a person.
    """
    return BLOCK_ATTENTIONS.choose(block_sparse_workload(problem), backend)


def _runs(segments: Tensor) -> Tensor:
    """Number the runs of equal ids; -1 for padding."""
    starts = torch.ones_like(segments)
    starts[:, 1:] = segments[:, 1:] != segments[:, :-1]
    return torch.where(segments < 0, -1, starts.cumsum(1) - 1)


def _check_gates(gates: Tensor, q: Tensor) -> None:
    """Refuse gates that do not fit the queries."""
    expected = (*q.shape[:3], 3)
    if tuple(gates.shape) != expected:
        raise ValueError(f"gates must have shape {expected} to match q, got {tuple(gates.shape)}")
    allowed = dict.fromkeys((q.dtype, state_dtype(q.dtype)))
    if gates.dtype not in allowed:
        raise ValueError(f"gates must be {' or '.join(map(str, allowed))}, got {gates.dtype}")
    if gates.device != q.device:
        raise ValueError(f"gates must be on {q.device} as q is, got {gates.device}")
