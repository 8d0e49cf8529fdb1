"""Causal softmax attention through torch's fused kernel, and by blocks inside a window.

With a window of w, a block of queries needs its own block of keys and the one before, if blocks
are at least w long; so memory grows with the length, not with its square.
"""

from dataclasses import replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from lt2theory.ops.attention_reference import AttentionProblem, repeat_key_heads, visible_keys

# Blocks shorter than this cost more in calls than they save in scores.
_MIN_BLOCK = 32
_FLASH_WIDEST = 256


def chunked_attention(problem: AttentionProblem) -> Float[Tensor, "b t h v"]:
    """Attention by `scaled_dot_product_attention`; see `reference_attention` for its meaning.

    The fused kernels have no second derivatives: take the reference for those.

    Args:
        problem: The attention.

    Returns:
        The outputs, in the dtype of the queries.
    """
    batch, length, heads, width = problem.q.shape
    if length == 0:
        return problem.v.new_zeros(batch, 0, heads, problem.v.shape[-1])
    problem = replace(
        problem, k=repeat_key_heads(problem.k, heads), v=repeat_key_heads(problem.v, heads)
    )
    if problem.window is not None:
        block = max(problem.window, _MIN_BLOCK)
        if length > 2 * block:
            return _by_blocks(problem, block)
        if problem.window >= problem.k.shape[1]:
            problem = replace(problem, window=None)
    plain = problem.window is None and problem.query_segments is None
    if plain and length == problem.k.shape[1]:
        # The flash kernel knows one width, so the scores are computed once a part.
        parts = problem.v.split(width, -1) if _has_flash(problem) else (problem.v,)
        outputs = [_fused(problem.q, problem.k, v, problem.scale, causal=True) for v in parts]
        return torch.cat(outputs, -1) if len(outputs) > 1 else outputs[0]
    if plain and length == 1:
        return _fused(problem.q, problem.k, problem.v, problem.scale)
    if plain and _has_flash(problem):
        # After a cache: the flash kernel needs no mask of queries times keys. The import is slow.
        from torch.nn.attention.bias import causal_lower_right

        late = causal_lower_right(length, problem.k.shape[1])
        parts = problem.v.split(width, -1)
        outputs = [_fused(problem.q, problem.k, v, problem.scale, mask=late) for v in parts]
        return torch.cat(outputs, -1)
    return _masked(
        problem.q,
        problem.k,
        problem.v,
        problem.scale,
        visible_keys(problem),
        segments=problem.query_segments is not None,
    )


def _has_flash(problem: AttentionProblem) -> bool:
    """Whether torch's flash kernel can run, on values in parts as wide as the keys."""
    width, half = problem.q.shape[-1], (torch.bfloat16, torch.float16)
    fits = problem.v.shape[-1] % width == 0 and width % 8 == 0 and width <= _FLASH_WIDEST
    return problem.q.is_cuda and problem.q.dtype in half and fits


def _fused(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    *,
    causal: bool = False,
    mask: Tensor | None = None,
) -> Tensor:
    """Torch's kernel, in the layout `[batch, time, head, width]`."""
    output = F.scaled_dot_product_attention(
        q.transpose(1, 2),
        k.transpose(1, 2),
        v.transpose(1, 2),
        attn_mask=mask,
        is_causal=causal,
        scale=scale,
    )
    return output.transpose(1, 2)


def _masked(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    visible: Bool[Tensor, "#b t m"],
    *,
    segments: bool,
) -> Tensor:
    """The kernel under an explicit mask; with segments, zero for queries that see nothing."""
    if not segments:
        return _fused(q, k, v, scale, mask=visible[:, None])
    # Kernels disagree on empty rows. So a query that sees nothing is shown everything, and its
    # output is replaced, which cuts its gradient too.
    blind = ~visible.any(-1, keepdim=True)
    output = _fused(q, k, v, scale, mask=(visible | blind)[:, None])
    return output.masked_fill(blind[..., None], 0.0)


def _by_blocks(problem: AttentionProblem, block: int) -> Tensor:
    """Attention inside a window, every block of queries against two blocks of keys."""
    batch, length, heads, _ = problem.q.shape
    count = -(-length // block)
    tail = count * block - length
    # Cropped or padded by this, the keys begin exactly one block before the first query.
    front = block - (problem.k.shape[1] - length)
    queries = _pad(problem.q, 0, tail).unflatten(1, (count, block))
    keys, values = (_neighbours(_pad(x, front, tail), block) for x in (problem.k, problem.v))
    visible = _block_mask(problem.window or block, block, count, front, problem.q.device)
    if problem.query_segments is None or problem.key_segments is None:
        # One mask serves the whole batch, so the batch goes where the heads are.
        q, k, v = (x.permute(1, 2, 0, 3, 4).flatten(2, 3) for x in (queries, keys, values))
        output = _masked(q, k, v, problem.scale, visible, segments=False)
        output = output.unflatten(2, (batch, heads)).permute(2, 0, 1, 3, 4)
    else:
        asking = _pad(problem.query_segments, 0, tail, -1).unflatten(1, (count, block, 1))
        asked = _neighbours(_pad(problem.key_segments, front, tail, -1), block).unsqueeze(2)
        visible = (visible & (asking == asked) & (asking >= 0)).flatten(0, 1)
        q, k, v = (x.flatten(0, 1) for x in (queries, keys, values))
        output = _masked(q, k, v, problem.scale, visible, segments=True)
        output = output.unflatten(0, (batch, count))
    whole: Tensor = output.flatten(1, 2)
    return whole[:, :length]


def _block_mask(
    window: int, block: int, count: int, front: int, device: torch.device
) -> Bool[Tensor, "n c d"]:
    """Which of its d = 2c keys each query of a block sees, for all n blocks."""
    query = torch.arange(block, 2 * block, device=device)[:, None]
    key = torch.arange(2 * block, device=device)
    start = block * torch.arange(count, device=device)[:, None, None]
    visible: Tensor = (key <= query) & (key > query - window) & (start + key >= front)
    return visible


def _neighbours(x: Tensor, block: int) -> Tensor:
    """`[b, (n + 1) c, ...]` to `[b, n, 2 c, ...]`: every block behind the one before it."""
    blocks = x.unflatten(1, (-1, block))
    return torch.cat([blocks[:, :-1], blocks[:, 1:]], 2)


def _pad(x: Tensor, front: int, tail: int, value: int = 0) -> Tensor:
    """Pad axis 1, or crop its front where `front` is negative."""
    return F.pad(x, (0, 0) * (x.dim() - 2) + (front, tail), value=value)
