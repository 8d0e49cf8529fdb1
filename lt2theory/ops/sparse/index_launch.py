"""The choice of an indexer by blocks of queries: buffers and launches of `triton_index`.

Triton is imported when a kernel is launched, not with this module.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int32, Int64
from torch import Tensor

from lt2theory.ops.sparse.dsa_reference import IndexedProblem
from lt2theory.ops.sparse.tiling import precision

_BUFFER = 2**26
"""Scores of one block of queries in all rows of the batch: 256 MiB."""
_UNIT = 128
"""Scores are computed in tiles of so many keys, and of at most as many queries."""
_HELD = 2**15
"""Scores of one query that fit a program's registers."""


@dataclass(frozen=True)
class Indexer:
    """What an indexer chooses from, in contiguous tensors.

    Attributes:
        q: Queries of its heads `[b t n i]`.
        k: Its keys `[b m i]`.
        weight: Weights of its heads `[b t n]`.
        query_segments: Segment of every query `[b t]`, or None.
        key_segments: Segment of every key `[b m]`, or None.
        window: Keys that a query sees, or None for all.
        top_k: Keys that a query takes.
    """

    q: Float[Tensor, "b t n i"]
    k: Float[Tensor, "b m i"]
    weight: Float[Tensor, "b t n"]
    query_segments: Int64[Tensor, "b t"] | None
    key_segments: Int64[Tensor, "b m"] | None
    window: int | None
    top_k: int

    @classmethod
    def of(cls, problem: IndexedProblem) -> "Indexer":
        """The indexer of an attention.

        Args:
            problem: The attention.

        Returns:
            Its indexer, without gradients.
        """
        segments = (problem.query_segments, problem.key_segments)
        asking, asked = (None if x is None else x.contiguous() for x in segments)
        return cls(
            problem.index_q.detach().contiguous(),
            problem.index_k.detach().contiguous(),
            problem.index_weight.detach().contiguous(),
            query_segments=asking,
            key_segments=asked,
            window=problem.window,
            top_k=problem.top_k,
        )

    @property
    def length(self) -> int:
        """Queries."""
        return self.q.shape[1]

    @property
    def num_keys(self) -> int:
        """Keys."""
        return self.k.shape[1]


@dataclass(frozen=True)
class Thresholds:
    """The choice of every query, without the scores that it was made from.

    Attributes:
        least: The smallest number that is taken `[b t]`.
        cut: The place before which keys of that number are taken `[b t]`.
    """

    least: Int32[Tensor, "b t"]
    cut: Int32[Tensor, "b t"]


def new_thresholds(indexer: Indexer) -> Thresholds:
    """Room for the choice of every query.

    Args:
        indexer: The indexer.

    Returns:
        Uninitialised thresholds.
    """
    shape, device = indexer.q.shape[:2], indexer.q.device
    return Thresholds(*(torch.empty(shape, dtype=torch.int32, device=device) for _ in range(2)))


@dataclass(frozen=True)
class Block:
    """One block of queries with its scores.

    Attributes:
        start: First query.
        stop: Query after the last.
        keys: Keys up to the last query.
        order: Scores as whole numbers in the same order `[b c s]`, lowest where nothing is seen.
    """

    start: int
    stop: int
    keys: int
    order: Int32[Tensor, "b c s"]

    @property
    def whole_rows(self) -> int:
        """Queries in whole tiles, all of them scored; those past the last see nothing."""
        return _round_up(self.stop - self.start, min(self.order.shape[1], _UNIT))


def blocks_of(indexer: Indexer, *, unit: int = _UNIT) -> list[tuple[int, int]]:
    """The blocks of queries whose scores are in memory at a time.

    Args:
        indexer: The indexer.
        unit: Blocks are multiples of so many queries.

    Returns:
        First query, and the query after the last, of every block.
    """
    columns = len(indexer.q) * _round_up(indexer.num_keys, _UNIT)
    rows = max(unit, _BUFFER // max(1, columns) // unit * unit)
    length = indexer.length
    return [(start, min(start + rows, length)) for start in range(0, length, rows)]


def new_order(indexer: Indexer, *, unit: int = _UNIT) -> Int32[Tensor, "b c s"]:
    """An empty buffer for the scores of any block.

    Args:
        indexer: The indexer.
        unit: As for `blocks_of`.

    Returns:
        The buffer, in whole tiles.
    """
    start, stop = blocks_of(indexer, unit=unit)[0]
    shape = (len(indexer.q), _round_up(stop - start, unit), _round_up(indexer.num_keys, _UNIT))
    return torch.empty(shape, dtype=torch.int32, device=indexer.q.device)


def score(indexer: Indexer, start: int, stop: int, order: Int32[Tensor, "b c s"]) -> Block:
    """Score the keys of one block of queries.

    Args:
        indexer: The indexer.
        start: First query.
        stop: Query after the last.
        order: The buffer, whose contents are replaced.

    Returns:
        The block.
    """
    import triton

    from lt2theory.ops.sparse.triton_index import score_kernel

    batch, length, heads, width = indexer.q.shape
    keys = indexer.num_keys - length + stop
    wide = indexer.q.dtype == torch.float32
    rows = min(order.shape[1], 64 if wide else _UNIT)
    columns = 64 if wide else _UNIT
    block = Block(start, stop, keys, order)
    across, down = triton.cdiv(keys, columns), block.whole_rows // rows
    segmented = indexer.query_segments is not None and indexer.key_segments is not None
    segments = (indexer.query_segments, indexer.key_segments) if segmented else (order, order)
    score_kernel[(across * down * batch,)](
        indexer.q, indexer.k, indexer.weight, *segments, order,
        length, indexer.num_keys, start, indexer.window or indexer.num_keys, *order.shape[1:],
        across, down,
        N=heads, WIDTH=width, SEGMENTED=segmented, BT=rows, BS=columns,
        BI=min(64, max(16, triton.next_power_of_2(width))),
        PREC=precision(indexer.q),
        num_warps=8 if rows * columns == _UNIT**2 else 4,
        num_stages=2,
    )  # fmt: skip
    return block


def choose(indexer: Indexer, block: Block, thresholds: Thresholds) -> None:
    """Write the choice of one block's queries.

    Args:
        indexer: The indexer.
        block: The block, scored.
        thresholds: Where it is written.
    """
    import triton

    from lt2theory.ops.sparse.triton_index import threshold_kernel

    size = triton.next_power_of_2(block.keys)
    held = size <= _HELD
    threshold_kernel[((block.stop - block.start) * len(indexer.q),)](
        block.order, thresholds.least, thresholds.cut,
        indexer.length, block.start, *block.order.shape[1:], block.keys, indexer.top_k,
        HALF=max(1, size // 2),
        BLOCK=size if held else 4096, HELD=held,
        num_warps=4 if not held or size <= 2048 else 8 if size <= 8192 else 16,
    )  # fmt: skip


def selected_keys_lists(indexer: Indexer) -> Int32[Tensor, "b t 1 c"]:
    """The selected keys of every query as one list for all heads.

    Args:
        indexer: The indexer.

    Returns:
        `c = top_k` places of keys in the order of time, -1 where a query sees fewer.
    """
    import triton

    from lt2theory.ops.sparse.triton_index import list_kernel

    batch, length = indexer.q.shape[:2]
    # A few new tokens need no more rows than they are.
    unit = min(_UNIT, max(16, triton.next_power_of_2(length)))
    order, thresholds = new_order(indexer, unit=unit), new_thresholds(indexer)
    lists = order.new_full((batch, length, 1, indexer.top_k), -1)
    for start, stop in blocks_of(indexer, unit=unit):
        block = score(indexer, start, stop, order)
        choose(indexer, block, thresholds)
        list_kernel[((stop - start) * batch,)](
            order, thresholds.least, thresholds.cut, lists,
            length, start, *order.shape[1:], block.keys, indexer.top_k,
            BLOCK=min(2048, triton.next_power_of_2(block.keys)),
        )  # fmt: skip
    return lists


def _round_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
