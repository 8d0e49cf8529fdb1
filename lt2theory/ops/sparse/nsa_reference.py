"""Native sparse attention through dense masks: the definition that backends are tested against.

A block's pooled key and value live at its last token, so that every mask is one over tokens and a
block is visible exactly where that token is.

Axes: b batch, t queries, m keys, h query heads, g key heads, k key width, v value width.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from lt2theory.ops.attention_reference import (
    AttentionProblem,
    reference_attention,
    repeat_key_heads,
    visible_keys,
)
from lt2theory.ops.reference import state_dtype


@dataclass(frozen=True)
class BlockSparseProblem(AttentionProblem):
    """Everything that one native sparse attention is computed from.

    `window` is that of the window branch. Segments are runs: two tokens have equal ids exactly if
    no token between them has another.

    Attributes:
        gates: Weights of the compressed, selected and window branch `[b t h 3]`.
        block_size: Tokens of a block.
        num_blocks: Blocks that a query selects, its own among them.
    """

    gates: Float[Tensor, "b t h 3"]
    block_size: int
    num_blocks: int


BlockAttentionRunner = Callable[[BlockSparseProblem], Tensor]
"""A native sparse attention to its outputs."""


def in_state_dtype(problem: BlockSparseProblem) -> BlockSparseProblem:
    """The same attention in at least float32.

    Args:
        problem: The attention.

    Returns:
        It, with every tensor in float64 where the queries are, and in float32 elsewhere.
    """
    dtype = state_dtype(problem.q.dtype)
    wide = {name: getattr(problem, name).to(dtype) for name in ("q", "k", "v", "gates")}
    return replace(problem, **wide)


def positions_in_segment(problem: AttentionProblem) -> Int64[Tensor, "#b m"]:
    """Position of every key within its segment, counted from 0.

    Args:
        problem: The attention.

    Returns:
        `[b m]`, with a batch axis of 1 without segments.
    """
    index = torch.arange(problem.k.shape[1], device=problem.k.device)[None]
    segments = problem.key_segments
    if segments is None:
        return index
    starts = torch.ones_like(segments, dtype=torch.bool)
    starts[:, 1:] = segments[:, 1:] != segments[:, :-1]
    origin: Tensor = torch.where(starts, index, 0).cummax(1).values
    return index - origin


def block_ends(problem: BlockSparseProblem) -> Bool[Tensor, "#b m"]:
    """Which tokens complete a block.

    Args:
        problem: The attention.

    Returns:
        `[b m]`; none in padding.
    """
    ends = (positions_in_segment(problem) + 1) % problem.block_size == 0
    return ends if problem.key_segments is None else ends & (problem.key_segments >= 0)


def selected_keys(problem: BlockSparseProblem) -> Bool[Tensor, "b g t m"]:
    """Which tokens the selected branch of every query reads.

    These are graphs as `lt2theory.analysis.reach_graph` takes them, one a key head.

    Args:
        problem: The attention.

    Returns:
        True in the query's own block up to itself, and in the `num_blocks - 1` complete earlier
        blocks with the largest importance: the compressed attention probability summed over the
        query heads of the key head. Of equally important blocks the earlier is taken.
    """
    problem = in_state_dtype(problem)
    return _selected(problem, _compressed(problem)[0])


def _selected(
    problem: BlockSparseProblem, weights: Float[Tensor, "b h t m"]
) -> Bool[Tensor, "b g t m"]:
    """`selected_keys`, from the compressed probabilities."""
    groups, size = problem.k.shape[2], problem.block_size
    length, num_keys = problem.q.shape[1], problem.k.shape[1]
    importance = weights.detach().unflatten(1, (groups, -1)).sum(2)
    visible = visible_keys(replace(problem, window=None))[:, None]
    place = positions_in_segment(problem)
    block = place // size
    own = visible & (block[:, None, num_keys - length :, None] == block[:, None, None, :])
    candidate = visible & block_ends(problem)[:, None, None, :] & ~own
    importance = importance.masked_fill(~candidate, -1.0)
    order = importance.argsort(dim=-1, descending=True, stable=True)
    rank = order.argsort(-1)
    chosen = candidate & (rank < problem.num_blocks - 1)
    # A key is read if the last token of its block was chosen. Where that token does not exist or
    # is of another segment it is invisible to every query of this one, and so never chosen.
    index = torch.arange(num_keys, device=place.device)
    last = (index + size - 1 - place % size).clamp(max=num_keys - 1)
    last = last[:, None, None, :].expand(*chosen.shape[:3], num_keys)
    selected: Tensor = own | (visible & chosen.gather(-1, last))
    return selected


def reference_block_sparse(problem: BlockSparseProblem) -> Float[Tensor, "b t h v"]:
    """The three branches with all scores at once; one that sees nothing gives exactly zero.

    Half precision is computed in float32, and the output is cast back.

    Args:
        problem: The attention.

    Returns:
        The outputs, in the dtype of the queries.
    """
    narrow, heads = problem.q.dtype, problem.q.shape[2]
    problem = in_state_dtype(problem)
    importance, compressed = _compressed(problem)
    selected = _selected(problem, importance).repeat_interleave(heads // problem.k.shape[2], 1)
    weights = _weights(problem, problem.k, selected)
    chosen = torch.einsum("bhtm,bmhv->bthv", weights, repeat_key_heads(problem.v, heads))
    branches = torch.stack([compressed, chosen, reference_attention(problem)], -1)
    output: Tensor = (branches * problem.gates.unsqueeze(-2)).sum(-1)
    return output.to(narrow)


def _compressed(
    problem: BlockSparseProblem,
) -> tuple[Float[Tensor, "b h t m"], Float[Tensor, "b t h v"]]:
    """Probability of the block that ends at each token, and what the compressed branch reads."""
    heads = problem.q.shape[2]
    index = torch.arange(problem.k.shape[1], device=problem.k.device)
    recent = (index <= index[:, None]) & (index > index[:, None] - problem.block_size)
    ends = block_ends(problem)
    mean = (ends[:, :, None] & recent).to(problem.k.dtype) / problem.block_size
    mean = mean.expand(problem.k.shape[0], -1, -1)
    k, v = (torch.einsum("bij,bjgd->bigd", mean, x) for x in (problem.k, problem.v))
    visible = visible_keys(replace(problem, window=None)) & ends[:, None, :]
    weights = _weights(problem, k, visible[:, None])
    return weights, torch.einsum("bhtm,bmhv->bthv", weights, repeat_key_heads(v, heads))


def _weights(
    problem: BlockSparseProblem, k: Float[Tensor, "b m g k"], visible: Bool[Tensor, "#b n t m"]
) -> Float[Tensor, "b h t m"]:
    """Attention probabilities; zero where nothing is visible, as in `reference_attention`."""
    keys = repeat_key_heads(k, problem.q.shape[2])
    scores = problem.scale * torch.einsum("bthk,bmhk->bhtm", problem.q, keys)
    scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
    weights: Tensor = scores.softmax(-1) * visible
    return weights
