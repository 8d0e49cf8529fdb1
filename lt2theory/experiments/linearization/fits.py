"""Power laws of the divergence in size and budget: `kl = c N^-a D^-b`, a line in logarithms."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats

from lt2theory.experiments.linearization.views import KL, Pooled, pooled

LEAST = 5
"""Points for which a fit of three numbers says anything."""


@dataclass(frozen=True)
class Fit:
    """A fit, by ordinary least squares in logarithms.

    Attributes:
        size: Exponent a of the parameters, with its 95 % interval (Student's t).
        budget: Exponent b of the tokens, likewise.
        error: Root of the mean square of what is left, in logarithms.
        n: Points.
    """

    size: Pooled
    budget: Pooled
    error: float
    n: int


def size_points(rows: pd.DataFrame) -> pd.DataFrame:
    """Divergence by mixer, size and budget.

    Args:
        rows: Rows of the study `sizes`.

    Returns:
        A row an arm: `mixer`, `size`, `parameters`, `budget`, `value`, `low`, `high`.
    """
    found = []
    for arm, own in rows.groupby("arm", sort=False):
        kl = pooled(rows, str(arm), KL)
        if kl is not None:
            first = own.iloc[0]
            told = {name: first[name] for name in ("mixer", "size", "parameters", "budget")}
            found.append(told | {"value": kl.value, "low": kl.low, "high": kl.high})
    return pd.DataFrame(
        found, columns=["mixer", "size", "parameters", "budget", "value", "low", "high"]
    )


def fitted(points: pd.DataFrame) -> Fit | None:
    """Fit one mixer's points.

    Args:
        points: Rows of `size_points` of one mixer.

    Returns:
        The fit; None where there are too few points, or only one size or budget.
    """
    spread = points["parameters"].nunique() > 1 and points["budget"].nunique() > 1
    if len(points) < LEAST or not spread:
        return None
    x = np.log(points[["parameters", "budget"]].to_numpy(dtype=float))
    y = np.log(points["value"].to_numpy(dtype=float))
    X = np.column_stack([np.ones(len(y)), x])
    solution, *_ = np.linalg.lstsq(X, y, rcond=None)
    left = y - X @ solution
    free = len(y) - X.shape[1]
    variance = float(left @ left) / free
    errors = np.sqrt(variance * np.diag(np.linalg.inv(X.T @ X)))
    reach = float(stats.t.ppf(0.975, free)) * errors
    exponents = [
        Pooled(-float(s), -float(s + r), -float(s - r), n=len(y))
        for s, r in zip(solution[1:], reach[1:], strict=True)
    ]
    return Fit(exponents[0], exponents[1], float(np.sqrt(np.mean(left**2))), len(y))
