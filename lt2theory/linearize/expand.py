"""Key-value heads that several query heads share, written out: one copy for each query head."""

from jaxtyping import Shaped
from torch import Tensor


def expand_heads(
    weight: Shaped[Tensor, "rows *rest"],
    *,
    num_kv_heads: int,
    num_heads: int,
    tiled: bool = False,
) -> Shaped[Tensor, "wide *rest"]:
    """Copy whole heads of a projection, so that each query head gets its own.

    Query head h reads key-value head `h // (num_heads / num_kv_heads)`, so a head's rows are kept
    together and repeated as a block: `view(kv, width, ...).repeat_interleave(group, 0)`. Repeating
    single rows, or cutting heads at another width, gives every student head a mixture.

    Args:
        weight: Rows of all key-value heads side by side: `[kv*k d]`, or a bias `[kv*k]`. The width
            of a head follows from it and is never assumed.
        num_kv_heads: Heads that it has.
        num_heads: Heads wanted; a multiple.
        tiled: Put all heads behind one another again and again instead, which gives query head h
            head `h % num_kv_heads`: wrong, and an arm of the studies that measure what it costs.

    Returns:
        `[h*k ...]`, a tensor of its own.

    Raises:
        ValueError: The numbers do not divide.
    """
    if num_kv_heads < 1 or num_heads % num_kv_heads:
        raise ValueError(f"num_kv_heads: {num_kv_heads} must divide num_heads {num_heads}")
    if weight.shape[0] % num_kv_heads:
        raise ValueError(
            f"num_kv_heads: {num_kv_heads} must divide the {weight.shape[0]} rows of the weight"
        )
    heads = weight.unflatten(0, (num_kv_heads, -1))
    group = num_heads // num_kv_heads
    wide: Tensor = heads.repeat_interleave(group, 0)
    if tiled:
        wide = heads.repeat(group, *[1] * (heads.ndim - 1))
    return wide.flatten(0, 1)
