"""What every attention refuses: heads and segments that do not fit each other."""

import torch
from torch import Tensor


def check_heads(q: Tensor, k: Tensor, v: Tensor) -> None:
    """Refuse queries, keys and values that do not fit each other.

    Args:
        q: Queries, to be `[batch, L, head, key width]`.
        k: Keys, to be `[batch, M >= L, key head, key width]`.
        v: Values, to be `[batch, M, key head, value width]`.

    Raises:
        ValueError: If one has a wrong shape, dtype or device.
    """
    for name, x in {"q": q, "k": k, "v": v}.items():
        shape = tuple(x.shape)
        if x.dim() != 4:
            raise ValueError(f"{name} must have 4 axes [batch, time, head, width], got {shape}")
        if not x.is_floating_point() or x.dtype != q.dtype:
            raise ValueError(f"{name} must be of q's floating dtype {q.dtype}, got {x.dtype}")
        if x.device != q.device:
            raise ValueError(f"{name} must be on {q.device} as q is, got {x.device}")
    batch, length, heads, width = q.shape
    if width == 0 or heads == 0:
        raise ValueError(f"q must have at least one head and channel, got {tuple(q.shape)}")
    if k.shape[0] != batch or k.shape[1] < length or k.shape[3] != width:
        raise ValueError(
            f"k must have shape ({batch}, at least {length}, key head, {width}) to match q, "
            f"got {tuple(k.shape)}"
        )
    if k.shape[2] == 0 or heads % k.shape[2]:
        raise ValueError(f"k must have a number of heads that divides {heads}, got {k.shape[2]}")
    if v.shape[:3] != k.shape[:3]:
        raise ValueError(
            f"v must have shape {(*k.shape[:3], 'value width')} to match k, got {tuple(v.shape)}"
        )


def check_segments(
    query_segments: Tensor | None, key_segments: Tensor | None, q: Tensor, k: Tensor
) -> None:
    """Refuse segments that do not fit the queries and keys.

    Args:
        query_segments: To be `[batch, L]`, int64, or None with `key_segments`.
        key_segments: To be `[batch, M]`, int64, or None.
        q: The queries.
        k: The keys.

    Raises:
        ValueError: If only one is given, or one has a wrong shape, dtype or device.
    """
    if (query_segments is None) != (key_segments is None):
        missing = "query_segments" if query_segments is None else "key_segments"
        raise ValueError(f"{missing} must be given where the other segments are, got None")
    _check_one("query_segments", query_segments, q)
    _check_one("key_segments", key_segments, k)


def coming_again(segments: Tensor) -> tuple[int, int] | None:
    """A segment that is no run of tokens: another stands between two of its own.

    Args:
        segments: Segment of every token `[batch, M]`; negative for padding, which may come again.

    Returns:
        Its row and its number, or None where every segment is one run.
    """
    starts = segments >= 0
    starts[:, 1:] &= segments[:, 1:] != segments[:, :-1]
    row = torch.arange(len(segments), device=segments.device)[:, None].expand_as(segments)
    begun = torch.stack([row[starts], segments[starts]])
    several, counts = torch.unique(begun, dim=1, return_counts=True)
    again = several[:, counts > 1].T.tolist()
    return (again[0][0], again[0][1]) if again else None


def _check_one(name: str, segments: Tensor | None, like: Tensor) -> None:
    """Refuse segments that do not fit the queries or keys they belong to."""
    if segments is None:
        return
    if segments.shape != like.shape[:2]:
        raise ValueError(
            f"{name} must have shape {tuple(like.shape[:2])}, got {tuple(segments.shape)}"
        )
    if segments.dtype != torch.int64:
        raise ValueError(f"{name} must be torch.int64, got {segments.dtype}")
    if segments.device != like.device:
        raise ValueError(f"{name} must be on {like.device} as q is, got {segments.device}")
