"""How the influence of windows decays with distance: the exact law and its summaries.

Distances count from 0 (the token itself) into the past. K = N T applications of windows of w
tokens beside a residual of weight a (theory W3 to W5).
"""

import math

import numpy as np
from jaxtyping import Float, Int

from lt2theory.analysis._checks import check_at_least, check_interval


def influence_law(window: int, residual: float | int, applications: int) -> Float[np.ndarray, "n"]:
    """Influence at each distance of K uniform windows with residual weight a, away from the start.

    The coefficient of `z^delta` in `(a + (1 - a)(1 + z + ... + z^(w-1)) / w)^K` (theory W3), by
    direct convolution of non-negative numbers, so that every coefficient keeps its relative
    accuracy however small it is.

    Args:
        window: Tokens w that a layer averages, itself included.
        residual: Weight a of the residual, in [0, 1].
        applications: K = N T layers in a row.

    Returns:
        `K (w - 1) + 1` weights that sum to 1, for distances 0, 1, ...

    Raises:
        ValueError: If an argument is out of range, naming it.
    """
    check_at_least("window", window, 1)
    check_interval("residual", residual, 0, 1)
    check_at_least("applications", applications, 0)
    one = np.full(window, (1.0 - residual) / window)
    one[0] += residual
    law, power = np.ones(1), one
    while applications:
        if applications & 1:
            law = np.convolve(law, power)
        applications >>= 1
        if applications:
            power = np.convolve(power, power)
    return law


def influence_mean(window: int, residual: float | int, applications: int) -> float:
    """Mean distance of `influence_law`, `K (1 - a)(w - 1) / 2` (theory W3).

    Args:
        window: Tokens w that a layer averages, itself included.
        residual: Weight a of the residual, in [0, 1].
        applications: K = N T layers in a row.

    Returns:
        The mean, in tokens.
    """
    return applications * (1 - residual) * (window - 1) / 2


def influence_std(window: int, residual: float | int, applications: int) -> float:
    """Standard deviation of `influence_law`; `sqrt(K (w^2 - 1) / 12)` without residual (W5).

    Args:
        window: Tokens w that a layer averages, itself included.
        residual: Weight a of the residual, in [0, 1].
        applications: K = N T layers in a row.

    Returns:
        The deviation, in tokens.
    """
    second = (1 - residual) * (window - 1) * (2 * window - 1) / 6
    first = (1 - residual) * (window - 1) / 2
    return math.sqrt(applications * (second - first**2))


def distance_quantile(
    weights: Float[np.ndarray, "*batch n"], q: float | int
) -> Int[np.ndarray, "*batch"]:
    """The least distance within which at least the share q of all influence lies.

    Args:
        weights: Non-negative weights of distances 0, 1, ..., not necessarily summing to 1.
        q: Share, in [0, 1].

    Returns:
        One distance for each row of weights.

    Raises:
        ValueError: If q is out of range or a row has no positive weight.
    """
    check_interval("q", q, 0, 1)
    total = weights.sum(-1, keepdims=True)
    if not (np.isfinite(total) & (total > 0)).all() or (weights < 0).any():
        raise ValueError("weights: negative, infinite or all zero (must have a positive sum)")
    cumulative = np.cumsum(weights, -1)
    # The last cumulative sum stands for the total, so that rounding never puts q = 1 out of reach.
    return np.asarray((cumulative < q * cumulative[..., -1:]).sum(-1))


def fitted_residual(weights: Float[np.ndarray, "n"], window: int, applications: int) -> float:
    """The residual weight a whose influence law has the mean distance that was measured.

    Args:
        weights: Non-negative influence at distances 0, 1, ..., taken away from the start of the
            sequence (further than `K (w - 1)`), not necessarily summing to 1.
        window: Tokens w that a layer sees, itself included; at least 2.
        applications: K = N T layers in a row.

    Returns:
        a, clipped to [0, 1].

    Raises:
        ValueError: If an argument is out of range or there is no influence.
    """
    check_at_least("window", window, 2)
    check_at_least("applications", applications, 1)
    if not weights.sum() > 0:
        raise ValueError("weights: all zero or NaN (must have a positive sum)")
    mean = float(weights @ np.arange(len(weights)) / weights.sum())
    return min(1.0, max(0.0, 1 - 2 * mean / (applications * (window - 1))))
