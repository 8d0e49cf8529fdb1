"""One new token of the sparse attentions, against buffers of fixed capacity.

What is selected follows `lt2theory.ops.sparse` exactly, ties included; no length is looked at on
the host. Axes: b batch, h query heads, g key heads, r query heads of one, c blocks, k and v widths.
"""

from dataclasses import replace

import torch
from jaxtyping import Float, Int32, Int64
from torch import Tensor

from lt2theory.ops.factors import BlockSparseInputs, IndexedInputs
from lt2theory.ops.fused.decode_attention import attend_to_buffer
from lt2theory.ops.reference import state_dtype
from lt2theory.ops.sparse.dsa_reference import index_scores


def indexed_step(
    inputs: IndexedInputs,
    buffers: dict[str, Tensor],
    *,
    length: Int64[Tensor, "1"],
    first: Int64[Tensor, "b"],
) -> Float[Tensor, "b h v"]:
    """DeepSeek sparse attention of the newest token.

    Args:
        inputs: What the mixer prepared for one token a row.
        buffers: `keys`, `values` and `index_keys` `[b capacity ...]`, with this token's.
        length: Tokens so far, itself included.
        first: First real position of every row.

    Returns:
        The outputs, in the dtype of the queries.
    """
    lists = _highest(inputs, buffers["index_keys"], length=length, first=first)
    return attend_to_buffer(
        inputs.q[:, 0],
        buffers["keys"],
        buffers["values"],
        length=length,
        first=first,
        lists=lists,
        scale=inputs.scale,
    )


def _highest(
    inputs: IndexedInputs, index_keys: Tensor, *, length: Tensor, first: Tensor
) -> Int32[Tensor, "b 1 n"]:
    """Places of the `top_k` seen keys that score highest, the earlier first among equals."""
    scores = index_scores(inputs.index_q, index_keys, inputs.index_weight)[:, 0]
    place = torch.arange(scores.shape[-1], device=scores.device)
    seen = (place >= first[:, None]) & (place < length)
    if inputs.window is not None:
        seen &= place >= length - inputs.window
    scores = scores.masked_fill(~seen, -torch.inf)
    count = min(inputs.top_k, scores.shape[-1])
    # What topk takes among equals is not defined; so it only finds the least score that is in.
    least = scores.topk(count, -1).values[:, -1:]
    above = scores > least
    level = (scores == least) & seen
    taken = above | (level & (level.cumsum(-1) <= count - above.sum(-1, keepdim=True)))
    slot = torch.where(taken, taken.cumsum(-1) - 1, count)
    lists = slot.new_full((len(slot), count + 1), -1).scatter(-1, slot, place.expand_as(slot))
    return lists[:, None, :count].int()


def block_step(
    inputs: BlockSparseInputs,
    buffers: dict[str, Tensor],
    *,
    length: Int64[Tensor, "1"],
    first: Int64[Tensor, "b"],
) -> Float[Tensor, "b h v"]:
    """Native sparse attention of the newest token.

    Args:
        inputs: What the mixer prepared for one token a row.
        buffers: `keys` and `values` `[b capacity ...]` with this token's, and the means of the
            blocks `pooled_keys` and `pooled_values` `[b c ...]`, which are kept up to date.
        length: Tokens so far, itself included.
        first: First real position of every row, from which its blocks count.

    Returns:
        The outputs, in the dtype of the queries.
    """
    keys = buffers["keys"]
    # A block that is longer than the buffer is never complete, whatever its size.
    size = min(inputs.block_size, keys.shape[1] + 1)
    inputs = replace(inputs, block_size=size, num_blocks=min(inputs.num_blocks, keys.shape[1]))
    position = length - 1 - first
    own = position // size
    tokens = (first + own * size)[:, None] + torch.arange(size, device=keys.device)
    row = torch.arange(len(first), device=keys.device)
    for name in ("keys", "values"):
        block = buffers[name][row[:, None], tokens.clamp(max=keys.shape[1] - 1)]
        pooled = buffers[f"pooled_{name}"]
        # Right once the block is complete, and not looked at before.
        pooled[row, own] = block.to(pooled.dtype).mean(1)
    weights, compressed = _compressed(inputs, buffers, complete=(position + 1) // size)
    lists = _selected(inputs, weights, own, tokens, length)
    q, values, scale, window = inputs.q[:, 0], buffers["values"], inputs.scale, inputs.window
    near = first if window is None else torch.maximum(first, length - window)
    chosen = attend_to_buffer(q, keys, values, length=length, first=first, lists=lists, scale=scale)
    local = attend_to_buffer(q, keys, values, length=length, first=near, scale=scale)
    branches = torch.stack([compressed, chosen.to(weights.dtype), local.to(weights.dtype)], -1)
    gates = inputs.gates[:, 0].to(weights.dtype)
    return torch.einsum("bhvn,bhn->bhv", branches, gates).to(q.dtype)


def _compressed(
    inputs: BlockSparseInputs, buffers: dict[str, Tensor], *, complete: Int64[Tensor, "b"]
) -> tuple[Float[Tensor, "b g r c"], Float[Tensor, "b h v"]]:
    """Probability of every complete block, and what the compressed branch reads."""
    pooled = buffers["pooled_keys"]
    dtype = state_dtype(pooled.dtype)
    scale = inputs.q.shape[-1] ** -0.5 if inputs.scale is None else inputs.scale
    q = scale * inputs.q[:, 0].to(dtype).unflatten(1, (pooled.shape[2], -1))
    scores = torch.einsum("bgrk,bcgk->bgrc", q, pooled.to(dtype))
    seen = torch.arange(pooled.shape[1], device=pooled.device) < complete[:, None]
    seen = seen[:, None, None]
    weights = scores.masked_fill(~seen, torch.finfo(dtype).min).softmax(-1) * seen
    read = torch.einsum("bgrc,bcgv->bgrv", weights, buffers["pooled_values"].to(dtype))
    return weights, read.flatten(1, 2)


def _selected(
    inputs: BlockSparseInputs,
    weights: Float[Tensor, "b g r c"],
    own: Int64[Tensor, "b"],
    tokens: Int64[Tensor, "b l"],
    length: Int64[Tensor, "1"],
) -> Int32[Tensor, "b g n"]:
    """Places of the tokens of the own block and of the most important blocks before it."""
    size, groups = inputs.block_size, weights.shape[1]
    before = torch.arange(weights.shape[-1], device=weights.device) < own[:, None]
    importance = weights.sum(2).masked_fill(~before[:, None], -1.0)
    ranked = importance.sort(dim=-1, descending=True, stable=True)
    blocks = ranked.indices[..., : inputs.num_blocks - 1]
    exists = ranked.values[..., : inputs.num_blocks - 1] >= 0
    start = (tokens[:, 0] - own * size)[:, None, None]
    chosen = (start + blocks * size)[..., None] + torch.arange(size, device=weights.device)
    chosen = torch.where(exists[..., None], chosen, -1).flatten(-2)
    mine = torch.where(tokens < length, tokens, -1)[:, None].expand(-1, groups, -1)
    return torch.cat([mine, chosen], -1).int()


def pooled_blocks(
    x: Float[Tensor, "b m g d"], first: Int64[Tensor, "b"], block_size: int
) -> Float[Tensor, "b c g d"]:
    """Means of the blocks of a whole buffer, in at least float32; only complete ones are right.

    Args:
        x: Keys or values by position.
        first: First real position of every row.
        block_size: Tokens of a block.

    Returns:
        One mean a block that begins in the buffer.
    """
    block_size = min(block_size, x.shape[1] + 1)
    count = -(-x.shape[1] // block_size)
    index = torch.arange(count * block_size, device=x.device)
    place = (first[:, None] + index).clamp(max=x.shape[1] - 1)
    row = torch.arange(len(first), device=x.device)[:, None]
    blocks: Tensor = x[row, place].to(state_dtype(x.dtype)).unflatten(1, (count, block_size))
    return blocks.mean(2)
