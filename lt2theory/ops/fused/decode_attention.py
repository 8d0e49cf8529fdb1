"""Attention of one new token to a cache of fixed capacity: its definition, and how it runs."""

import torch
from torch import Tensor

from lt2theory.ops.attention_reference import repeat_key_heads
from lt2theory.ops.reference import state_dtype
from lt2theory.ops.workload import is_interpreting

_KERNEL_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def attend_to_buffer(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    length: Tensor,
    first: Tensor,
    lists: Tensor | None = None,
    ring: bool = False,
    scale: float | None = None,
) -> Tensor:
    """One kernel over what is in use where there is one, else a mask over the whole buffer.

    Args:
        q: Queries of the newest token `[b h k]`.
        keys: `[b capacity g k]`, its own among them.
        values: `[b capacity g v]`.
        length: Tokens so far, itself included: an int64 tensor `[1]`.
        first: First position that every row sees `[b]`, int64.
        lists: The places that are read `[b gl n]`, int32, negative where a list is shorter; one
            list a key head, or one for all (gl = 1). None reads all that is in use.
        ring: Place n holds the newest position that leaves the remainder n by the capacity.
        scale: Factor on the scores, or None for `k ** -0.5`.

    Returns:
        `[b h v]` in the dtype of q.
    """
    if q.dtype in _KERNEL_DTYPES and (q.is_cuda or is_interpreting()):
        from lt2theory.ops.fused.triton_decode_attention import decode_attention

        return decode_attention(q, keys, values, length, first, lists=lists, ring=ring, scale=scale)
    return reference_buffer_attention(
        q, keys, values, length=length, first=first, lists=lists, ring=ring, scale=scale
    )


def reference_buffer_attention(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    length: Tensor,
    first: Tensor,
    lists: Tensor | None = None,
    ring: bool = False,
    scale: float | None = None,
) -> Tensor:
    """`attend_to_buffer` in plain torch, any dtype; half precision is computed in float32.

    Args:
        q: As for `attend_to_buffer`.
        keys: As for `attend_to_buffer`.
        values: As for `attend_to_buffer`.
        length: As for `attend_to_buffer`.
        first: As for `attend_to_buffer`.
        lists: As for `attend_to_buffer`.
        ring: As for `attend_to_buffer`.
        scale: As for `attend_to_buffer`.

    Returns:
        `[b h v]` in the dtype of q.
    """
    dtype, heads, groups, capacity = state_dtype(q.dtype), q.shape[1], keys.shape[2], keys.shape[1]
    place = torch.arange(capacity, device=q.device)
    if lists is not None:
        inside = torch.where(lists < 0, capacity, lists).long()
        real = torch.zeros(*lists.shape[:2], capacity + 1, dtype=torch.bool, device=q.device)
        real = real.scatter(-1, inside, value=True)[..., :-1].expand(-1, groups, -1)
    else:
        position = length - 1 - (length - 1 - place) % capacity if ring else place
        seen = (position >= first[:, None]) & (position >= 0) & (position < length)
        real = seen[:, None].expand(-1, groups, -1)
    # What was never written may be anything, also NaN, which no weight of zero would remove.
    unread = ~real.transpose(1, 2).unsqueeze(-1)
    k, v = (repeat_key_heads(x.to(dtype).masked_fill(unread, 0.0), heads) for x in (keys, values))
    scores = torch.einsum("bhk,bmhk->bhm", q.to(dtype), k)
    scores = scores * (q.shape[-1] ** -0.5 if scale is None else scale)
    real = real.repeat_interleave(heads // groups, 1)
    weights = scores.masked_fill(~real, torch.finfo(dtype).min).softmax(-1) * real
    return torch.einsum("bhm,bmhv->bhv", weights, v).to(q.dtype)
