"""Singular values of many small corrections at once, from Gram matrices of their columns.

The gated compact WY form (theory R13) writes the correction as `A^T M B` with `A`, `B` [T d] and M
[T T]. With Cholesky factors `A A^T = F_A F_A^T`, `B B^T = F_B F_B^T` its singular values are those
of the T x T core `F_A^T M F_B`, and everything but the Gram matrices is algebra on T x T numbers.

A Gram matrix squares the condition number, so a product is taken this way only while its columns
are far from dependent (`SAFE`); then the error stays within a small multiple of the round-off of a
Householder QR. One-sided Jacobi rotations find the core's small singular values as accurately as
its large ones.

Axes: n products, T factors, d width; T x T algebra has the products last, `[T T n]`.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from lt2theory.ops.factors import FactorOrder

SAFE = 0.05
"""Least squared sine between a column and those before it; below it a product is left to a QR."""

MOST_FACTORS = 8
"""With more factors the T x T algebra costs more than LAPACK, and M may grow like 3^T."""

MOST_SWEEPS = 12
"""Jacobi converges quadratically; six sweeps are rarely needed for eight columns."""


class Grams(NamedTuple):
    """Inner products of the columns of R13, for n products.

    Attributes:
        left: `A A^T` `[n T T]`.
        right: `B B^T` `[n T T]`.
        lower: `b_i . a_j` at the moment i, with the decays between j and i; only `i > j` is read.
    """

    left: Float[Tensor, "n T T"]
    right: Float[Tensor, "n T T"]
    lower: Float[Tensor, "n T T"]


def join_grams(parts: Sequence[Grams]) -> Grams:
    """Grams of several groups of products as one.

    Args:
        parts: At least one group.

    Returns:
        All of them, in order; where left and right are the same they stay so.
    """
    left = torch.cat([part.left for part in parts])
    if parts[0].right is parts[0].left:
        return Grams(left, left, left)
    rights, lowers = [part.right for part in parts], [part.lower for part in parts]
    return Grams(left, torch.cat(rights), torch.cat(lowers))


def scalar_grams(keys: Float[Tensor, "n T d"], log_decays: Float[Tensor, "n T"] | None) -> Grams:
    """Grams without decay, or with one decay a factor: the keys' own Gram matrix, scaled.

    Args:
        keys: Keys.
        log_decays: Logs of the decays, or None.

    Returns:
        The inner products; the factor order does not matter.
    """
    gram = keys @ keys.mT
    if log_decays is None:
        return Grams(gram, gram, gram)
    upto = log_decays.cumsum(-1)
    after = (upto[:, -1:] - upto).exp()
    before = upto.exp()
    # Above the diagonal the difference is positive and could overflow; it is never read there.
    between = (upto[:, :, None] - upto[:, None, :]).clamp(max=0).exp()
    left = gram * after[:, :, None] * after[:, None, :]
    right = gram * before[:, :, None] * before[:, None, :]
    return Grams(left, right, gram * between)


def vector_grams(
    keys: Float[Tensor, "n T d"], log_decays: Float[Tensor, "n T d"], order: FactorOrder
) -> Grams:
    """Grams with one decay a channel.

    Args:
        keys: Keys.
        log_decays: Logs of the decays.
        order: `decay_first` or `erase_first`.

    Returns:
        The inner products.
    """
    n, count, d = keys.shape
    decays = log_decays.exp()
    first = order == "decay_first"
    carried = keys.new_empty(n, count, d)  # column j with the decays up to now
    right = keys.new_empty(n, count, d)
    lower = keys.new_zeros(n, count, count)
    before: Tensor | None = None
    for i in range(count):
        decay, key = decays[:, i], keys[:, i]
        if i and first:
            carried[:, :i] *= decay[:, None]
        if i:
            torch.bmm(carried[:, :i], key[..., None], out=(dots := keys.new_empty(n, i, 1)))
            lower[:, i, :i] = dots[..., 0]
        if i and not first:
            carried[:, :i] *= decay[:, None]
        if first:
            carried[:, i] = key
            before = decay if before is None else before * decay
            torch.mul(before, key, out=right[:, i])
        else:
            torch.mul(decay, key, out=carried[:, i])
            right[:, i] = key if before is None else before * key
            before = decay if before is None else before * decay
    return Grams(carried @ carried.mT, right @ right.mT, lower)


def gram_spectrum(
    grams: Grams, betas: Float[Tensor, "n T"], width: int
) -> tuple[Float[Tensor, "n T"], Bool[Tensor, "n"]]:
    """Singular values of the corrections, and which of them can be relied on.

    Args:
        grams: Inner products of the columns.
        betas: Erase strengths.
        width: Width d, for the round-off below which a value counts as zero.

    Returns:
        Descending values, and whether the columns are far enough from dependent.
    """
    strengths = betas.mT.contiguous()
    left, safe = _cholesky(_products_last(grams.left))
    if grams.right is grams.left:
        right, safe_right = left, safe
    else:
        right, safe_right = _cholesky(_products_last(grams.right))
    middle = _wy_matrix(_products_last(grams.lower), strengths)
    half = (left[:, :, None] * middle[:, None]).sum(0)
    core = (half[:, :, None] * right).sum(1)
    values = jacobi_singular_values(core)
    # As `DPLROperator`: the sum over columns of the products of their norms.
    norms = (half.square().sum(0).sqrt() * right.square().sum(1).sqrt()).sum(0)
    roundoff = 4 * max(width, len(core), 1) ** 0.5 * torch.finfo(core.dtype).eps * norms
    values = torch.where(values > roundoff, values, torch.zeros_like(values))
    return values.mT, safe & safe_right


def jacobi_singular_values(matrices: Float[Tensor, "T T n"]) -> Float[Tensor, "T n"]:
    """Singular values by one-sided Jacobi rotations of the columns.

    Source: Hestenes 1958; Demmel and Veselic, "Jacobi's method is more accurate than QR", 1992.

    Args:
        matrices: Square matrices, the batch last; not changed.

    Returns:
        Descending values.
    """
    columns = [matrices[:, j].clone() for j in range(matrices.shape[1])]
    tolerance = len(columns) * torch.finfo(matrices.dtype).eps
    for _ in range(MOST_SWEEPS):
        worst = 0.0
        for i in range(len(columns) - 1):
            for j in range(i + 1, len(columns)):
                worst = max(worst, _rotate(columns, i, j))
        # The cosines were taken before the rotations, which converge quadratically.
        if worst <= tolerance**0.5 / 8:
            break
    return torch.stack([column.square().sum(0).sqrt() for column in columns]).sort(
        0, descending=True
    )[0]


def _rotate(columns: list[Tensor], i: int, j: int) -> float:
    """Make two columns orthogonal in place, and return the largest |cosine| that they had."""
    x, y = columns[i], columns[j]
    a, b, c = (x * x).sum(0), (y * y).sum(0), (x * y).sum(0)
    size = (a * b).sqrt_()
    cosine = float((c.abs() / size.clamp_(min=torch.finfo(c.dtype).tiny)).max())
    if cosine == 0:
        return 0.0
    # The smaller root of t^2 + 2 zeta t - 1 with zeta = (b - a) / 2c, without dividing by c.
    gap, twice = b - a, 2 * c
    root = torch.hypot(gap, twice)
    bottom = gap.abs().add_(root)
    t = torch.where(gap < 0, -twice, twice) / bottom.clamp_(min=torch.finfo(c.dtype).tiny)
    cos = torch.rsqrt(t * t + 1)
    sin = t * cos
    columns[i], columns[j] = x * cos - y * sin, x * sin + y * cos
    return cosine


def _products_last(x: Tensor) -> Tensor:
    """Return `[T T n]`, contiguous."""
    return x.permute(1, 2, 0).contiguous()


def _cholesky(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Return lower factors `[T T n]`, and where every column is far from those before it."""
    count = gram.shape[0]
    factor = torch.zeros_like(gram)
    safe = torch.ones_like(gram[0, 0], dtype=torch.bool)
    for j in range(count):
        rest = gram[j, j] - factor[j, :j].square().sum(0)
        safe &= rest >= SAFE * gram[j, j]
        safe &= rest > torch.finfo(gram.dtype).tiny
        pivot = rest.clamp(min=torch.finfo(gram.dtype).tiny).sqrt_()
        factor[j, j] = pivot
        if j + 1 < count:
            taken = (factor[j + 1 :, :j] * factor[j, :j]).sum(1)
            factor[j + 1 :, j] = (gram[j + 1 :, j] - taken) / pivot
    return factor, safe


def _wy_matrix(lower: Tensor, betas: Tensor) -> Tensor:
    """Return `M = (I + diag(beta) stril(lower))^{-1} diag(beta)`, `[T T n]` (theory R1, R13)."""
    count = lower.shape[0]
    middle = torch.zeros_like(lower)
    for i in range(count):
        if i:
            middle[i, :i] = -betas[i] * (lower[i, :i, None] * middle[:i, :i]).sum(0)
        middle[i, i] = betas[i]
    return middle
