"""The public DeepSeek sparse attention: checks its arguments, chooses a backend, runs it.

Source: DeepSeek-V3.2-Exp's technical report (2025); arXiv 2512.02556, section 2.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast, get_args

from torch import Tensor

from lt2theory.ops.autocast import own_precision
from lt2theory.ops.factors import IndexedInputs
from lt2theory.ops.registry import Backend, Choice, Registry
from lt2theory.ops.sparse.dsa_checks import checked_problem
from lt2theory.ops.sparse.dsa_chunked import chunked_indexed_attention, chunked_indexer_loss
from lt2theory.ops.sparse.dsa_reference import (
    IndexedAttention,
    IndexedProblem,
    IndexerLoss,
    reference_indexed_attention,
    reference_indexer_loss,
)
from lt2theory.ops.sparse.dsa_triton import triton_indexed_attention
from lt2theory.ops.sparse.route import declines_indexed, describe_indexed, refuses
from lt2theory.ops.sparse.workloads import IndexedWorkload, indexed_workload
from tasks.names import unknown_name

# Annotated as plain tensors for the reason given in lt2theory.ops.recurrence.


@dataclass(frozen=True)
class IndexedRunner:
    """What a backend of this op consists of.

    Attributes:
        attend: The attention over the selected keys.
        loss: The indexer's loss.
    """

    attend: IndexedAttention
    loss: Callable[[IndexedProblem, IndexerLoss], Tensor]


INDEXED_ATTENTIONS: Registry[IndexedWorkload, IndexedRunner] = Registry(
    "indexed_attention",
    (
        Backend(
            name="triton",
            load=lambda: IndexedRunner(triton_indexed_attention, chunked_indexer_loss),
            merit="kernels score, choose and attend by blocks of queries; first derivatives only",
            refuses=refuses,
            declines=declines_indexed,
            describes=describe_indexed,
        ),
        Backend(
            name="chunked",
            load=lambda: IndexedRunner(chunked_indexed_attention, chunked_indexer_loss),
            merit="scores by chunks of queries, and only the selected keys attended to",
        ),
        Backend(
            name="reference",
            load=lambda: IndexedRunner(reference_indexed_attention, reference_indexer_loss),
            merit="dense masks, any dtype, any derivative",
        ),
    ),
)
"""Backends of `indexed_attention`."""


def indexed_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    index_q: Tensor,
    index_k: Tensor,
    index_weight: Tensor,
    top_k: int,
    window: int | None = None,
    scale: int | float | None = None,
    query_segments: Tensor | None = None,
    key_segments: Tensor | None = None,
    backend: str = "auto",
) -> Tensor:
    """Causal softmax attention over the keys that an indexer scores highest.

    Query t attends to the `top_k` of the keys that it sees with the highest
    `I_ts = sum_n index_weight_tn relu(index_q_tn . index_k_s)`, the earlier key first among equals,
    and to all of them where they are fewer. All heads share the choice. It has no gradient, so
    none reaches the indexer; `indexer_loss` trains it. Scores are computed in at least float32;
    autocast changes nothing.

    Args:
        q: Queries `[batch, L, head, key width]`.
        k: Keys `[batch, M >= L, key head, key width]`, as for `softmax_attention`.
        v: Values `[batch, M, key head, value width]`.
        index_q: Queries of the indexer `[batch, L, index head, index width]`.
        index_k: Keys of the indexer `[batch, M, index width]`.
        index_weight: Weights of its heads `[batch, L, index head]`.
        top_k: Keys that a query attends to, at least 1.
        window: Keys that a query sees, from which it selects; None for all.
        scale: Factor on the scores of the attention, or None for `key width ** -0.5`.
        query_segments: As for `softmax_attention`; a query scores keys of its own segment only.
        key_segments: As for `softmax_attention`.
        backend: A name in `BACKENDS`.

    Returns:
        The outputs `[batch, L, head, value width]` in the dtype of q.

    Raises:
        ValueError: If an argument has a wrong shape, dtype, device, value or name.
    """
    problem = checked_problem(
        (q, k, v),
        (index_q, index_k, index_weight),
        top_k=top_k,
        window=window,
        scale=scale,
        segments=(query_segments, key_segments),
    )
    runner = explain_indexed_attention(problem, backend=backend).backend.load()
    with own_precision(q.device):
        return runner.attend(problem)


def run_indexed_attention(
    inputs: IndexedInputs,
    *,
    query_segments: Tensor | None = None,
    key_segments: Tensor | None = None,
    backend: str = "auto",
) -> Tensor:
    """`indexed_attention` on what a mixer prepared.

    Args:
        inputs: The inputs, with the cached keys and values put in front.
        query_segments: As for `softmax_attention`.
        key_segments: As for `softmax_attention`.
        backend: A name in `BACKENDS`.

    Returns:
        The outputs `[batch, L, head, value width]`.

    Raises:
        ValueError: If a shape, dtype, device, value or name does not fit.
    """
    return indexed_attention(
        inputs.q,
        inputs.k,
        inputs.v,
        index_q=inputs.index_q,
        index_k=inputs.index_k,
        index_weight=inputs.index_weight,
        top_k=inputs.top_k,
        window=inputs.window,
        scale=inputs.scale,
        query_segments=query_segments,
        key_segments=key_segments,
        backend=backend,
    )


def indexer_loss(
    inputs: IndexedInputs,
    *,
    kind: str = "dense",
    query_segments: Tensor | None = None,
    key_segments: Tensor | None = None,
    backend: str = "auto",
) -> Tensor:
    """`KL(p || softmax(I))` of the attention p and the indexer's scores I, averaged over queries.

    The attention is averaged over its heads and a constant here, so that the gradient is the
    indexer's alone. Queries of padding do not count.

    Args:
        inputs: What an attention mixer prepared, with the cached keys and values put in front.
        kind: `dense` compares over all visible keys, as in the report's warm-up; `sparse` over the
            selected ones, with the attention that these get from each other.
        query_segments: As for `softmax_attention`.
        key_segments: As for `softmax_attention`.
        backend: A name in `BACKENDS`.

    Returns:
        A scalar in nats, in at least float32; 0 without queries.

    Raises:
        ValueError: If a shape, dtype, device, value or name does not fit.
    """
    if kind not in get_args(IndexerLoss):
        raise ValueError(unknown_name("kind", kind, get_args(IndexerLoss)))
    problem = indexed_problem(inputs, query_segments, key_segments)
    runner = explain_indexed_attention(problem, backend=backend).backend.load()
    with own_precision(problem.q.device):
        return runner.loss(problem, cast("IndexerLoss", kind))


def explain_indexed_attention(
    problem: IndexedProblem, *, backend: str = "auto"
) -> Choice[IndexedWorkload, IndexedRunner]:
    """Which backend would run this attention, and why.

    Args:
        problem: The attention.
        backend: A name in `BACKENDS`.

    Returns:
        The choice; `str()` of it is one line for a person.
    """
    return INDEXED_ATTENTIONS.choose(indexed_workload(problem), backend)


def indexed_problem(
    inputs: IndexedInputs,
    query_segments: Tensor | None = None,
    key_segments: Tensor | None = None,
) -> IndexedProblem:
    """The attention that inputs and segments define.

    Args:
        inputs: The inputs.
        query_segments: As for `softmax_attention`.
        key_segments: As for `softmax_attention`.

    Returns:
        The attention, checked.

    Raises:
        ValueError: If a shape, dtype, device or value does not fit.
    """
    return checked_problem(
        (inputs.q, inputs.k, inputs.v),
        (inputs.index_q, inputs.index_k, inputs.index_weight),
        top_k=inputs.top_k,
        window=inputs.window,
        scale=inputs.scale,
        segments=(query_segments, key_segments),
    )
