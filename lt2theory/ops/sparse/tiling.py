"""How attention is cut into tiles, and what a kernel on tiles is compiled for.

Triton is imported when a kernel is launched, not with this module.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

LOG2_E = 1.4426950408889634


@dataclass(frozen=True)
class Tiling:
    """How one kernel is cut.

    Attributes:
        queries: Queries of a tile.
        keys: Keys of a tile. Both divide 64, but that `queries` may be 128 where a program has one
            tile of queries.
        warps: Warps of a program.
        stages: Tiles that are loaded ahead.
    """

    queries: int
    keys: int
    warps: int
    stages: int


@dataclass(frozen=True)
class Heads:
    """What the attention reads, in contiguous tensors.

    Attributes:
        q: Queries `[b t h k]`.
        k: Keys `[b m g k]`.
        v: Values `[b m g v]`.
        scale: Factor on the scores.
    """

    q: Float[Tensor, "b t h k"]
    k: Float[Tensor, "b m g k"]
    v: Float[Tensor, "b m g v"]
    scale: float


def kind_of(heads: Heads) -> str:
    """What a tile of these heads must hold.

    Args:
        heads: What is attended to.

    Returns:
        The second part of a key of `TILINGS`.
    """
    if heads.q.dtype == torch.float32:
        return "float32"
    return "wide" if heads.q.shape[-1] > 128 else "half"


def sizes_of(heads: Heads, tiling: Tiling) -> dict[str, Any]:
    """What every kernel that multiplies is compiled for.

    Args:
        heads: What is attended to.
        tiling: How it is cut.

    Returns:
        Arguments of a kernel.
    """
    import triton

    width, values = heads.q.shape[-1], heads.v.shape[-1]
    return {
        "DK": width,
        "DV": values,
        "BM": tiling.queries,
        "BN": tiling.keys,
        "BK": max(16, triton.next_power_of_2(width)),
        "BV": max(16, triton.next_power_of_2(values)),
        "PREC": precision(heads.q),
        "num_warps": tiling.warps,
        "num_stages": tiling.stages,
    }


def precision(x: Tensor) -> str:
    """How tensor cores multiply: float32 by three products, which lose nothing that matters.

    Args:
        x: One of the factors.

    Returns:
        A value of `input_precision`.
    """
    return "tf32x3" if x.dtype == torch.float32 else "tf32"
