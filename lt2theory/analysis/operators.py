"""Diagonal-plus-low-rank operators: what T loops of a linear mixer do to a state.

Axes: d width of the space (a head's key width), r columns of the correction, m columns of a state.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from lt2theory.analysis._checks import (
    check_floating,
    check_like,
    check_order,
    check_shape,
)
from lt2theory.analysis.diagonal_low_rank import DiagonalLowRank
from lt2theory.ops.factors import FactorOrder


@dataclass(frozen=True, eq=False)
class DPLROperator(DiagonalLowRank):
    """The matrix `diag(diagonal) - left @ right^T`, batched over leading axes.

    `diag(diagonal)` is the gate baseline and `left @ right^T` the correction, whose rank is what
    looping can buy (theory R1 to R13). Spectrum, rank and determinant are those of
    `DiagonalLowRank`.

    Attributes:
        diagonal: Diagonal part `[..., d]`, float32 or float64.
        left: Left columns `[..., d, r]`; r may be 0.
        right: Right columns `[..., d, r]`.

    Raises:
        ValueError: If a shape, dtype or device does not fit, naming the argument.
    """

    @classmethod
    def identity(
        cls,
        batch_shape: Sequence[int],
        dim: int,
        *,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
    ) -> "DPLROperator":
        """The identity on `dim` numbers, without correction columns.

        Args:
            batch_shape: Leading axes.
            dim: Width d, at least 0.
            dtype: float32 or float64.
            device: Where the tensors live.

        Returns:
            An operator with r = 0.
        """
        diagonal = torch.ones(*batch_shape, dim, dtype=dtype, device=device)
        columns = diagonal.new_zeros(*batch_shape, dim, 0)
        return cls(diagonal, columns, columns)

    @classmethod
    def from_factor(
        cls,
        key: Float[Tensor, "..."],
        beta: Float[Tensor, "..."] | None = None,
        log_decay: Float[Tensor, "..."] | None = None,
        order: FactorOrder = "decay_first",
    ) -> "DPLROperator":
        """One transition of the recurrence: decay `D = diag(exp(log_decay))` and one erasure.

        `decay_first` is `(I - beta k k^T) D`, `erase_first` is `D (I - beta k k^T)`
        (theory, Conventions; LT2 arXiv 2605.20670 Table 1 and Eq. 4).

        Args:
            key: Key `[..., d]`, of any norm.
            beta: Erase strength `[...]`, or None for a mixer that erases nothing (r = 0).
            log_decay: Natural log of alpha, `[...]` or `[..., d]`, or None for no decay.
            order: Which of the two acts on the state first.

        Returns:
            The operator, with one column, or none if `beta` is None.

        Raises:
            ValueError: If a shape, dtype, device or `order` does not fit, naming the argument.
        """
        check_floating("key", key)
        check_order(order)
        decay = torch.ones_like(key) if log_decay is None else _decay(key, log_decay)
        if beta is None:
            columns = key.new_zeros(*key.shape, 0)
            return cls(decay, columns, columns)
        check_like("key", key, "beta", beta)
        check_shape("beta", beta, tuple(key.shape[:-1]))
        erased, decayed = (beta[..., None] * key)[..., None], (decay * key)[..., None]
        if order == "decay_first":
            return cls(decay, erased, decayed)
        return cls(decay, beta[..., None, None] * decayed, key[..., None])

    def compose(self, other: "DPLROperator") -> "DPLROperator":
        """The product `self @ other`: `self` acts after `other`.

        `(D1 - L1 R1^T)(D2 - L2 R2^T) = D1 D2 - [A1 L2, L1] [R2, D2 R1]^T`, so columns add and no
        product of correction columns is dropped.

        Args:
            other: The operator that acts first; leading axes broadcast.

        Returns:
            An operator with `other.num_columns + self.num_columns` columns, earlier ones first.

        Raises:
            ValueError: If width, dtype, device or leading axes differ.
        """
        self._check_partner("other", other.diagonal)
        first, second = _broadcast(other, self)
        left = torch.cat([second.apply(first.left), second.left], -1)
        right = torch.cat([first.right, first.diagonal[..., None] * second.right], -1)
        return DPLROperator(first.diagonal * second.diagonal, left, right)

    def apply(self, x: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """The operator applied to vectors or to the columns of states.

        Args:
            x: Vectors `[..., d]` (as many axes as `diagonal`) or states `[..., d, m]` (one more).

        Returns:
            The image, shaped like `x` (leading axes broadcast).

        Raises:
            ValueError: If the axes, width, dtype or device of `x` do not fit.
        """
        if x.ndim == self.diagonal.ndim:
            self._check_partner("x", x)
            return self.diagonal * x - _matmul(self.left, _matmul(self.right.mT, x))
        if x.ndim != self.diagonal.ndim + 1:
            allowed = f"{self.diagonal.ndim} for vectors, {self.diagonal.ndim + 1} for states"
            raise ValueError(f"x: {x.ndim} axes are not allowed (must be {allowed})")
        self._check_partner("x", x[..., 0] if x.shape[-1] else x.sum(-1))
        return self.diagonal[..., None] * x - self.left @ (self.right.mT @ x)

    def inverse(self) -> "DPLROperator":
        """The inverse, by Woodbury's identity, with the same number of columns.

        `A^{-1} = D^{-1} - L' R'^T` with `L' = -D^{-1} L C^{-1}`, `R' = D^{-1} R` and the
        capacitance matrix `C = I - R^T D^{-1} L`. Accurate only while no decay is close to zero.

        Source: Woodbury, "Inverting modified matrices", 1950.

        Returns:
            The inverse operator.

        Raises:
            ValueError: If a diagonal entry is zero or the capacitance matrix is singular.
        """
        if bool((self.diagonal == 0).any()):
            raise ValueError("diagonal: 0 is not allowed (an inverse needs non-zero entries)")
        scaled_left = self.left / self.diagonal[..., None]
        scaled_right = self.right / self.diagonal[..., None]
        core, info = torch.linalg.inv_ex(self._capacitance())
        if bool((info != 0).any()):
            raise ValueError("left, right: the operator is singular (an inverse does not exist)")
        return DPLROperator(1 / self.diagonal, -scaled_left @ core, scaled_right)

    def _check_partner(self, name: str, vector: Tensor) -> None:
        """Refuse a vector `[..., d]` that this operator cannot act on.

        Raises:
            ValueError: If its width, dtype, device or leading axes do not fit.
        """
        check_like("diagonal", self.diagonal, name, vector)
        if vector.shape[-1] != self.dim:
            raise ValueError(
                f"{name}: width {vector.shape[-1]} is not allowed (must be d = {self.dim})"
            )
        ours, theirs = self.diagonal.shape[:-1], vector.shape[:-1]
        if any(m != n and 1 not in (m, n) for m, n in zip(ours[::-1], theirs[::-1], strict=False)):
            raise ValueError(
                f"{name}: leading axes {list(theirs)} are not allowed "
                f"(must broadcast with {list(ours)})"
            )


def _decay(key: Tensor, log_decay: Tensor) -> Tensor:
    """Return the diagonal `[..., d]` that a scalar or vector log decay stands for."""
    check_like("key", key, "log_decay", log_decay)
    check_shape("log_decay", log_decay, tuple(key.shape[:-1]), tuple(key.shape))
    if log_decay.shape == key.shape:
        return log_decay.exp()
    return log_decay.exp()[..., None].expand_as(key)


def _matmul(matrix: Tensor, vector: Tensor) -> Tensor:
    """Return a batched matrix times vector, with leading axes broadcast."""
    return (matrix @ vector[..., None])[..., 0]


def _broadcast(first: DPLROperator, second: DPLROperator) -> tuple[DPLROperator, DPLROperator]:
    """Return both operators with common leading axes."""
    batch = (first.diagonal[..., :1] * second.diagonal[..., :1]).shape[:-1]

    def expand(operator: DPLROperator) -> DPLROperator:
        d, r = operator.dim, operator.num_columns
        return DPLROperator(
            operator.diagonal.expand(*batch, d),
            operator.left.expand(*batch, d, r),
            operator.right.expand(*batch, d, r),
        )

    return expand(first), expand(second)
