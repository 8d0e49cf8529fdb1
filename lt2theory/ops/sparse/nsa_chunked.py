"""Native sparse attention by chunks of queries: only the selected blocks are gathered.

A chunk meets the pooled keys of the blocks that are complete at its end, and of the keys only the
`num_blocks * block_size` that each of its queries selected. Nothing has a size of queries times
keys, and where there are several chunks each is computed again on the way back instead of keeping
what it gathered.

Axes: b batch, t queries of a chunk, m keys, c complete blocks, g key heads, r query heads of one,
s blocks that a query selects, l tokens of a block, k key width, v value width.
"""

from dataclasses import dataclass, replace
from functools import partial

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from lt2theory.ops.attention_chunked import chunked_attention
from lt2theory.ops.sparse.nsa_reference import (
    BlockSparseProblem,
    block_ends,
    in_state_dtype,
    positions_in_segment,
)

_GATHERED_NUMBERS = 2**22
"""Keys and values that one chunk gathers, in numbers: enough to keep the device busy."""
_MIN_CHUNK = 16


@dataclass(frozen=True)
class _Blocks:
    """The keys and values of one problem by complete blocks, in the order of their last tokens.

    A row of the batch with fewer than `c = m // l` blocks ends in blocks with the last token m,
    which no query sees.

    Attributes:
        rows: Keys beside values, one row a token `[b*g*m k+v]`.
        pooled_k: Mean key of every block `[b c g k]`.
        pooled_v: Mean value of every block `[b c g v]`.
        last: Last token of every block `[b c]`.
        segment: Segment of every block `[b c]`, or None.
        own_start: First token of every token's own block `[b m]`.
    """

    rows: Float[Tensor, "p w"]
    pooled_k: Float[Tensor, "b c g k"]
    pooled_v: Float[Tensor, "b c g v"]
    last: Int64[Tensor, "b c"]
    segment: Int64[Tensor, "b c"] | None
    own_start: Int64[Tensor, "b m"]


def chunked_block_sparse(problem: BlockSparseProblem) -> Float[Tensor, "b t h v"]:
    """Native sparse attention in plain torch; see `reference_block_sparse` for its meaning.

    The window branch goes through `chunked_attention`, which has no second derivatives.

    Args:
        problem: The attention.

    Returns:
        The outputs, in the dtype of the queries.
    """
    batch, length, heads, _ = problem.q.shape
    if length == 0:
        return problem.v.new_zeros(batch, 0, heads, problem.v.shape[-1])
    wide = in_state_dtype(no_larger_than_the_text(problem))
    blocks = _split(wide)
    chunk = _chunk(wide)
    parts = []
    for start in range(0, length, chunk):
        stop = min(start + chunk, length)
        part = partial(_two_branches, wide, blocks, start, stop)
        again = length > chunk and torch.is_grad_enabled()
        parts.append(
            checkpoint(part, use_reentrant=False, preserve_rng_state=False) if again else part()
        )
    output = torch.cat(parts, 1)
    output = output + wide.gates[..., 2:] * chunked_attention(problem).to(output.dtype)
    return output.to(problem.q.dtype)


def _chunk(problem: BlockSparseProblem) -> int:
    """Queries of a chunk."""
    batch, _, groups, width = problem.k.shape
    listed = batch * groups * problem.num_blocks * problem.block_size
    gathered = listed * (width + problem.v.shape[-1])
    return max(_MIN_CHUNK, _GATHERED_NUMBERS // max(1, gathered))


def no_larger_than_the_text(problem: BlockSparseProblem) -> BlockSparseProblem:
    """The same attention with no more and no larger blocks than its keys can fill.

    Args:
        problem: The attention.

    Returns:
        It; a block that is longer than all keys is never complete, whatever its size.
    """
    num_keys = problem.k.shape[1]
    size = min(problem.block_size, num_keys + 1)
    most = min(problem.num_blocks, num_keys // size + 1)
    return replace(problem, block_size=size, num_blocks=most)


def _split(problem: BlockSparseProblem) -> _Blocks:
    """Find the complete blocks and pool them."""
    batch, num_keys = problem.k.shape[:2]
    size, device = problem.block_size, problem.k.device
    index = torch.arange(num_keys, device=device)
    # Sorted, the last tokens come first; their number is not looked at, which would wait for a GPU.
    last = torch.where(block_ends(problem), index, num_keys).expand(batch, -1).sort(-1).values
    last = last[:, : num_keys // size]
    within = torch.arange(1 - size, 1, device=device)
    tokens = (last[:, :, None] + within).clamp(min=0, max=num_keys - 1)
    row = torch.arange(batch, device=device)[:, None, None]
    pooled_k, pooled_v = (x[row, tokens].mean(2) for x in (problem.k, problem.v))
    segments = problem.key_segments
    known = None if segments is None else segments.gather(1, last.clamp(max=num_keys - 1))
    own_start = index - positions_in_segment(problem) % size
    rows = torch.cat([problem.k, problem.v], -1).transpose(1, 2).flatten(0, 2)
    return _Blocks(rows, pooled_k, pooled_v, last, known, own_start.expand(batch, -1))


def _two_branches(
    problem: BlockSparseProblem, blocks: _Blocks, start: int, stop: int
) -> Float[Tensor, "b t h v"]:
    """The gated compressed and selected branches of queries `start` to `stop - 1`."""
    past = problem.k.shape[1] - problem.q.shape[1]
    groups = problem.k.shape[2]
    q = problem.scale * problem.q[:, start:stop].unflatten(2, (groups, -1))
    tokens = torch.arange(past + start, past + stop, device=q.device)
    real = None
    if problem.query_segments is not None:
        real = problem.query_segments[:, start:stop]
    # The block with number n ends at token (n + 1) l - 1 at the earliest.
    complete = (past + stop) // problem.block_size
    last = blocks.last[:, None, :complete]
    visible = last <= tokens[:, None]
    if real is not None and blocks.segment is not None:
        visible = visible & (blocks.segment[:, None, :complete] == real[:, :, None])
    scores = torch.einsum("btgrk,bcgk->bgrtc", q, blocks.pooled_k[:, :complete])
    weights = _softmax(scores, visible[:, None, None])
    compressed = torch.einsum("bgrtc,bcgv->btgrv", weights, blocks.pooled_v[:, :complete])
    own_start = blocks.own_start[:, past + start : past + stop]
    candidate = visible & (last < own_start[:, :, None])
    keys, read = _select(problem, weights.detach().sum(2), candidate, last, own_start)
    read = read & (keys <= tokens[:, None, None])
    if real is not None:
        read = read & (real >= 0)[:, :, None, None]
    selected = _read(q, blocks.rows, keys, read, problem.k.shape)
    gates = problem.gates[:, start:stop].unflatten(2, (groups, -1))
    output: Tensor = gates[..., :1] * compressed + gates[..., 1:2] * selected
    return output.flatten(2, 3)


def _select(
    problem: BlockSparseProblem,
    importance: Float[Tensor, "b g t c"],
    candidate: Bool[Tensor, "b t c"],
    last: Int64[Tensor, "b 1 c"],
    own_start: Int64[Tensor, "b t"],
) -> tuple[Int64[Tensor, "b t g n"], Bool[Tensor, "b t g n"]]:
    """The n = s l tokens of the selected blocks, and which of them are blocks that exist."""
    batch, groups, length, complete = importance.shape
    size, device = problem.block_size, importance.device
    ranked = importance.masked_fill(~candidate[:, None], -1.0).sort(
        dim=-1, descending=True, stable=True
    )
    chosen = ranked.indices[..., : problem.num_blocks - 1].transpose(1, 2)
    exists = ranked.values[..., : problem.num_blocks - 1].transpose(1, 2) >= 0
    ends = last[:, :, None].expand(batch, length, groups, complete).gather(-1, chosen)
    first = own_start[:, :, None, None].expand(batch, length, groups, 1)
    first = torch.cat([first, ends - (size - 1)], -1)
    exists = torch.cat([torch.ones_like(first[..., :1], dtype=torch.bool), exists], -1)
    keys = first[..., None] + torch.arange(size, device=device)
    return keys.flatten(-2), exists.repeat_interleave(size, -1)


def _read(
    q: Float[Tensor, "b t g r k"],
    rows: Float[Tensor, "p w"],
    keys: Int64[Tensor, "b t g n"],
    read: Bool[Tensor, "b t g n"],
    shape: torch.Size,
) -> Float[Tensor, "b t g r v"]:
    """Attention of every query to its own list of keys."""
    batch, num_keys, groups, width = shape
    place = torch.arange(batch * groups, device=q.device).view(batch, 1, groups, 1) * num_keys
    place = place + keys.clamp(min=0, max=num_keys - 1)
    k, v = (
        rows.index_select(0, place.flatten())
        .unflatten(0, place.shape)
        .split([width, rows.shape[1] - width], -1)
    )
    weights = _softmax(torch.einsum("btgrk,btgnk->btgrn", q, k), read[:, :, :, None])
    return torch.einsum("btgrn,btgnv->btgrv", weights, v)


def _softmax(scores: Tensor, visible: Bool[Tensor, "..."]) -> Tensor:
    """Probabilities; zero where nothing is visible, with gradients that are zero there too."""
    weights: Tensor = scores.masked_fill(~visible, torch.finfo(scores.dtype).min).softmax(-1)
    return weights * visible
