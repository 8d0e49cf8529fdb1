"""Numerical and effective ranks: how many directions a spectrum really uses.

A matrix of exact rank T can be numerically rank one (theory R4), so every rank here is computed
from singular values and named after the source of its definition.
"""

from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tasks.names import unknown_name

RankKind = Literal["entropy", "stable", "threshold", "participation"]
"""Definitions of the effective rank; `effective_rank` spells them out."""

RELATIVE_THRESHOLD = 1e-4
"""Cut-off of the `threshold` rank, relative to the largest singular value (arXiv 2602.02195)."""


def effective_rank(
    singular_values: Float[Tensor, "..."], kind: str = "entropy"
) -> Float[Tensor, "..."]:
    """Effective rank of a spectrum, invariant to its scale and to its order.

    With `p_i = s_i / sum s` the kinds are

    - `entropy`: `exp(-sum p_i log p_i)` (Roy and Vetterli, "The effective rank", 2007);
    - `stable`: `sum s_i^2 / s_max^2` (Rudelson and Vershynin, "Sampling from large matrices: an
      approach through geometric functional analysis", 2007);
    - `threshold`: how many exceed `1e-4 s_max` (arXiv 2602.02195);
    - `participation`: `(sum s_i^2)^2 / sum s_i^4`, the participation ratio of the energies `s_i^2`
      (Bell and Dean 1970 for localised modes; Gao et al. 2017 for dimensionality).

    Each lies between 1 and n, and equals m for m equal non-zero values. A zero spectrum, or one
    without values, has effective rank 0.

    Args:
        singular_values: `[..., n]`, finite and non-negative, in any order.
        kind: `entropy`, `stable`, `threshold` or `participation`.

    Returns:
        One effective rank for each spectrum, in the dtype of the input.

    Raises:
        ValueError: If `kind` is unknown or a value is negative, infinite or NaN.
    """
    if kind not in get_args(RankKind):
        raise ValueError(unknown_name("kind", kind, get_args(RankKind)))
    _check_spectrum(singular_values)
    if singular_values.shape[-1] == 0:
        return singular_values.sum(-1)
    # Dividing by the largest value keeps the squares and fourth powers of small spectra from
    # underflowing; all four definitions are invariant to it.
    largest = singular_values.amax(-1, keepdim=True)
    is_zero = largest == 0
    s = singular_values / torch.where(is_zero, torch.ones_like(largest), largest)
    rank = _normalised_rank(torch.where(is_zero, torch.ones_like(s), s), kind)
    return torch.where(is_zero.squeeze(-1), torch.zeros_like(rank), rank)


def numerical_rank(singular_values: Float[Tensor, "..."], tol: float | int) -> Int[Tensor, "..."]:
    """How many singular values exceed `tol` times the largest one.

    Source: Golub and Van Loan, "Matrix Computations", section 5.4 (numerical rank).

    Args:
        singular_values: `[..., n]`, finite and non-negative, in any order.
        tol: Relative tolerance, in [0, 1).

    Returns:
        One count for each spectrum (int64); 0 for a zero spectrum.

    Raises:
        ValueError: If `tol` is out of range or a value is negative, infinite or NaN.
    """
    if not 0 <= tol < 1:
        raise ValueError(f"tol: {tol} is not allowed (must be in [0, 1))")
    _check_spectrum(singular_values)
    if singular_values.shape[-1] == 0:
        return singular_values.sum(-1).long()
    return (singular_values > tol * singular_values.amax(-1, keepdim=True)).sum(-1)


def _normalised_rank(s: Tensor, kind: str) -> Tensor:
    """Return the effective rank of spectra whose largest value is 1."""
    if kind == "entropy":
        entropy: Tensor = torch.special.entr(s / s.sum(-1, keepdim=True)).sum(-1)
        return entropy.exp()
    if kind == "stable":
        return s.square().sum(-1)
    if kind == "threshold":
        return (s > RELATIVE_THRESHOLD).sum(-1).to(s.dtype)
    return s.square().sum(-1).square() / s.pow(4).sum(-1)


def _check_spectrum(singular_values: Tensor) -> None:
    """Refuse what no singular value decomposition returns.

    Raises:
        ValueError: If there is no axis of values, or one is negative, infinite or NaN.
    """
    if singular_values.ndim == 0:
        raise ValueError("singular_values: a scalar is not allowed (must be [..., n])")
    is_valid = singular_values.isfinite() & (singular_values >= 0)
    if not bool(is_valid.all()):
        worst = singular_values[~is_valid][0].item()
        raise ValueError(f"singular_values: {worst} is not allowed (must be finite and >= 0)")
