"""Transitions by design: T loops whose keys have a chosen coherence, erasure and decay.

What a trained model's `loop_transitions` shows is a mixture of all of these; here each is turned
alone.
"""

import math

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from lt2theory.analysis._checks import check_at_least, check_interval
from lt2theory.analysis.composed_factors import ComposedFactors
from lt2theory.analysis.rank import effective_rank, numerical_rank


def coherent_keys(
    count: int, dim: int, coherence: float | int, *, generator: torch.Generator
) -> Float[Tensor, "f k"]:
    """Random unit keys of which every two have the same cosine.

    `k_i = sqrt(c) u_0 + sqrt(1 - c) u_i` with random orthonormal u.

    Args:
        count: Keys f, one a loop.
        dim: Key width k, above `count`.
        coherence: Cosine c, in [0, 1]: 0 for orthogonal keys, 1 for one key repeated.
        generator: Source of randomness.

    Returns:
        `[f k]`, float64.

    Raises:
        ValueError: If an argument is out of range, naming it.
    """
    check_at_least("count", count, 1)
    check_interval("coherence", coherence, 0, 1)
    if dim <= count:
        raise ValueError(f"dim: {dim} is not allowed (must be above count = {count})")
    drawn = torch.randn(dim, count + 1, dtype=torch.float64, generator=generator)
    u = torch.linalg.qr(drawn).Q.mT
    keys: Tensor = math.sqrt(coherence) * u[:1] + math.sqrt(1 - coherence) * u[1:]
    return keys


def designed_transitions(
    num_loops: int,
    *,
    dim: int = 16,
    coherence: float | int = 0.0,
    beta: float | int = 1.0,
    decay: float | int = 1.0,
    seed: int = 0,
) -> pd.DataFrame:
    """Spectrum of the T-loop correction, for T up to a number of loops (theory R1 to R8).

    The spectrum depends on the keys' cosines alone, so that one draw stands for all.

    Args:
        num_loops: Largest T.
        dim: Key width d_k, above T.
        coherence: Cosine between the keys of any two loops, in [0, 1].
        beta: Erase strength of every loop, in [0, 2]: 1 projects, 2 reflects.
        decay: Scalar decay alpha of every loop, in (0, 1].
        seed: Seed of the keys' directions.

    Returns:
        One row for each T (`num_loops`) and singular value (`index`, 0 is the
        largest): `singular_value`, `orthogonal_ideal`, and of the whole spectrum `rank`,
        `entropy_rank` and `ideal_entropy_rank`.

    Raises:
        ValueError: If an argument is out of range, naming it.
    """
    check_at_least("num_loops", num_loops, 1)
    check_interval("beta", beta, 0, 2)
    check_interval("decay", decay, 0, 1)
    if decay == 0:
        raise ValueError("decay: 0 is not allowed (must be in (0, 1])")
    generator = torch.Generator().manual_seed(seed)
    keys = coherent_keys(num_loops, dim, coherence, generator=generator)
    keys = keys[None, None, None]
    betas = torch.full(keys.shape[:-1], float(beta), dtype=torch.float64)
    logs = torch.full_like(betas, math.log(decay))
    tables = []
    for count in range(1, num_loops + 1):
        composed = ComposedFactors(
            layer=0,
            num_loops=count,
            keys=keys[..., :count, :],
            betas=betas[..., :count],
            log_decays=logs[..., :count],
            order="decay_first",
        )
        tables.append(_rows(composed, count))
    return pd.concat(tables, ignore_index=True)


def _rows(composed: ComposedFactors, count: int) -> pd.DataFrame:
    values, ideal = composed.spectrum()[0, 0, 0], composed.orthogonal_ideal()[0, 0, 0]
    return pd.DataFrame(
        {
            "num_loops": count,
            "index": np.arange(len(values)),
            "singular_value": values.numpy(),
            "orthogonal_ideal": ideal.numpy(),
            "rank": int(numerical_rank(values, 1e-8)),
            "entropy_rank": float(effective_rank(values)),
            "ideal_entropy_rank": float(effective_rank(ideal)),
        }
    )
