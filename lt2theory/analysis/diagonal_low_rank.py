"""A diagonal plus a low rank: spectrum, rank and determinant of a matrix by its factors.

Axes: d width of the space (a head's key width), r columns of the correction.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lt2theory.analysis._checks import (
    check_floating,
    check_like,
)
from lt2theory.analysis.rank import effective_rank, numerical_rank
from lt2theory.cards import card

_SHOWN = 8
"""Singular values that a notebook shows."""


@dataclass(frozen=True, eq=False)
class DiagonalLowRank:
    """The matrix `diag(diagonal) - left @ right^T`, batched over leading axes, and its numbers.

    Nothing here forms a d x d matrix except `to_dense`, and `determinant` and `logabsdet` where a
    decay is exactly zero.

    Attributes:
        diagonal: Diagonal part `[..., d]`, float32 or float64.
        left: Left columns `[..., d, r]`; r may be 0.
        right: Right columns `[..., d, r]`.

    Raises:
        ValueError: If a shape, dtype or device does not fit, naming the argument.
    """

    # Shapes are checked below, so that a wrong one is a ValueError with and without jaxtyping.
    diagonal: Float[Tensor, "..."]
    left: Float[Tensor, "..."]
    right: Float[Tensor, "..."]

    def __post_init__(self) -> None:
        check_floating("diagonal", self.diagonal)
        if self.diagonal.ndim < 1:
            raise ValueError("diagonal: a scalar is not allowed (must be [..., d])")
        for name, value in (("left", self.left), ("right", self.right)):
            check_like("diagonal", self.diagonal, name, value)
            if value.shape[:-1] != self.diagonal.shape or value.ndim == 0:
                expected = f"{list(self.diagonal.shape)} and a last axis r"
                raise ValueError(
                    f"{name}: shape {list(value.shape)} is not allowed (must be {expected})"
                )
        if self.left.shape != self.right.shape:
            raise ValueError(
                f"right: {self.right.shape[-1]} columns are not allowed "
                f"(must be {self.left.shape[-1]}, as in left)"
            )

    def _repr_html_(self) -> str:
        """What a notebook shows: sizes, and the spectrum of a single operator."""
        batch = list(self.diagonal.shape[:-1])
        facts: dict[str, object] = {
            "width d": self.dim,
            "columns r": self.num_columns,
            "batch": batch or "one operator",
            "dtype": str(self.diagonal.dtype).removeprefix("torch."),
        }
        if not batch:
            values = self.correction_singular_values().detach()
            told = [f"{value:.4g}" for value in values[:_SHOWN].tolist()]
            facts["singular values"] = ", ".join(told + ["…"] * (len(values) > _SHOWN)) or "none"
            facts["rank"] = int(self.rank())
            facts["effective rank (entropy)"] = float(effective_rank(values))
        return card(f"{type(self).__name__}: diag(diagonal) - left right^T", facts)

    @property
    def dim(self) -> int:
        """Width d of the space."""
        return self.diagonal.shape[-1]

    @property
    def num_columns(self) -> int:
        """Columns r of the correction, an upper bound on its rank."""
        return self.left.shape[-1]

    def to_dense(self) -> Float[Tensor, "*batch d d"]:
        """Return the d x d matrix, for comparisons."""
        return torch.diag_embed(self.diagonal) - self.left @ self.right.mT

    def correction_singular_values(self) -> Float[Tensor, "*batch n"]:
        """Singular values of `left @ right^T`, descending, `n = min(r, d)` of them.

        With `left = Q1 R1` and `right = Q2 R2` they are those of the small core `R1 R2^T`, at
        O(d r^2) a matrix. Values below the round-off of the factors' product cannot be told from
        zero (two equal reflections cancel to about 1e-16) and are returned as zero.

        Gradients exist where both factors have full column rank, r <= d.

        Returns:
            Non-negative values in the operator's dtype.
        """
        # Without Q the factorisation is cheaper, but torch differentiates only the reduced form.
        differentiable = torch.is_grad_enabled() and (
            self.left.requires_grad or self.right.requires_grad
        )
        mode = "reduced" if differentiable else "r"
        core_left = torch.linalg.qr(self.left, mode=mode).R
        core_right = torch.linalg.qr(self.right, mode=mode).R
        values = torch.linalg.svdvals(core_left @ core_right.mT)
        return torch.where(values > self._roundoff()[..., None], values, torch.zeros_like(values))

    def rank(self, tol: float | int = 1e-10) -> Int[Tensor, "*batch"]:
        """Numerical rank of the correction.

        Args:
            tol: Relative to the largest singular value, in [0, 1).

        Returns:
            How many singular values exceed `tol * s_max`; 0 for a zero correction.
        """
        return numerical_rank(self.correction_singular_values().detach(), tol)

    def determinant(self) -> Float[Tensor, "*batch"]:
        """The determinant, `prod(D) det(I - R^T D^{-1} L)` (matrix determinant lemma).

        The relative error grows with the condition of the operator: for a long product of
        erasures the determinant is the product of the factors' own, `prod(1 - beta |k|^2)`.

        Returns:
            One number a matrix. Where a diagonal entry is zero the lemma divides by it, so the
            whole batch falls back on the dense matrix.
        """
        if bool((self.diagonal == 0).any()):
            dense: Tensor = torch.linalg.det(self.to_dense())
            return dense
        core: Tensor = torch.linalg.det(self._capacitance())
        return self.diagonal.prod(-1) * core

    def logabsdet(self) -> Float[Tensor, "*batch"]:
        """Natural logarithm of the determinant's magnitude, safe where the determinant underflows.

        Returns:
            One number a matrix, `-inf` for a singular one.
        """
        if bool((self.diagonal == 0).any()):
            dense: Tensor = torch.linalg.slogdet(self.to_dense()).logabsdet
            return dense
        core: Tensor = torch.linalg.slogdet(self._capacitance()).logabsdet
        return self.diagonal.abs().log().sum(-1) + core

    def _capacitance(self) -> Tensor:
        """Return the r x r matrix `I - R^T D^{-1} L`."""
        eye = torch.eye(self.num_columns, dtype=self.diagonal.dtype, device=self.diagonal.device)
        return eye - self.right.mT @ (self.left / self.diagonal[..., None])

    def _roundoff(self) -> Tensor:
        """Return a bound `[...]` on the rounding error of the singular values.

        Householder QR is backward stable column by column, so the error scales with the sum of
        the columns' products of norms, not with the (possibly cancelled) correction itself.
        """
        with torch.no_grad():
            norms = (_column_norms(self.left) * _column_norms(self.right)).sum(-1)
            size = max(self.dim, self.num_columns, 1)
            bound: Tensor = 4 * size**0.5 * torch.finfo(norms.dtype).eps * norms
            return bound


def _column_norms(columns: Tensor) -> Tensor:
    """Return the norm of every column, whose squares may overflow or underflow."""
    if columns.shape[-2] == 0:
        return columns.sum(-2)
    largest = columns.abs().amax(-2, keepdim=True)
    scaled = columns / torch.where(largest > 0, largest, torch.ones_like(largest))
    norms: Tensor = largest.squeeze(-2) * scaled.norm(dim=-2)
    return norms
