"""What a backend of a sparse attention is chosen from, beside what every attention has."""

from dataclasses import dataclass

from lt2theory.ops.sparse.dsa_reference import IndexedProblem
from lt2theory.ops.sparse.nsa_reference import BlockSparseProblem
from lt2theory.ops.workload import AttentionWorkload


@dataclass(frozen=True)
class BlockSparseWorkload(AttentionWorkload):
    """What a backend of native sparse attention is chosen from.

    Attributes:
        block_size: Tokens of a block.
        num_blocks: Blocks that a query selects, its own among them.
    """

    block_size: int = 1
    num_blocks: int = 1


@dataclass(frozen=True)
class IndexedWorkload(AttentionWorkload):
    """What a backend of DeepSeek sparse attention is chosen from.

    Attributes:
        top_k: Keys that a query attends to.
        index_heads: Heads of the indexer.
        index_width: Their width.
    """

    top_k: int = 1
    index_heads: int = 1
    index_width: int = 1


def block_sparse_workload(problem: BlockSparseProblem) -> BlockSparseWorkload:
    """The workload that a native sparse attention is.

    Args:
        problem: The attention.

    Returns:
        Its workload.
    """
    sizes = {"block_size": problem.block_size, "num_blocks": problem.num_blocks}
    return BlockSparseWorkload.of(problem, **sizes)


def indexed_workload(problem: IndexedProblem) -> IndexedWorkload:
    """The workload that a DeepSeek sparse attention is.

    Args:
        problem: The attention.

    Returns:
        Its workload.
    """
    heads, width = problem.index_q.shape[2:]
    return IndexedWorkload.of(problem, top_k=problem.top_k, index_heads=heads, index_width=width)
