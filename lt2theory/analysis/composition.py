"""Products of a mixer's transitions, by their factors.

Axes: T factors in the order in which they act, d key width.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from lt2theory.analysis._checks import (
    check_at_least,
    check_floating,
    check_like,
    check_order,
    check_shape,
)
from lt2theory.analysis.gram_spectrum import (
    MOST_FACTORS,
    gram_spectrum,
    join_grams,
    scalar_grams,
    vector_grams,
)
from lt2theory.analysis.operators import DPLROperator
from lt2theory.ops.factors import FactorOrder

ALGEBRA_CHUNK = 8192
"""Products whose T x T algebra is done together: operations long beside their overhead."""


def compose_factors(
    keys: Float[Tensor, "..."],
    betas: Float[Tensor, "..."] | None = None,
    log_decays: Float[Tensor, "..."] | None = None,
    order: FactorOrder = "decay_first",
) -> DPLROperator:
    """The product of T transitions, later ones on the left: `A_T ... A_2 A_1`.

    Equals composing `DPLROperator.from_factor` step by step; the columns are kept as contiguous
    rows here, which is several times faster. Their product is the gated compact WY form
    (theory R13).

    Args:
        keys: Keys `[..., T, d]`, in the order in which they act.
        betas: Erase strengths `[..., T]`, or None (no erasure: the correction has no columns).
        log_decays: Natural logs of the decays, `[..., T]` or `[..., T, d]`, or None.
        order: `decay_first` or `erase_first`, for every factor.

    Returns:
        An operator with T columns (0 if `betas` is None); the identity for T = 0.

    Raises:
        ValueError: If a shape, dtype, device or `order` does not fit, naming the argument.
    """
    _check_arguments(keys, betas, log_decays, order)
    if log_decays is None:
        decays = torch.ones_like(keys[..., :1])
    elif log_decays.shape == keys.shape:
        decays = log_decays.exp()
    else:
        decays = log_decays.exp()[..., None]
    diagonal = decays.prod(-2).expand(*keys.shape[:-2], keys.shape[-1])
    if betas is None or keys.shape[-2] == 0:
        columns = keys.new_zeros(*diagonal.shape, 0)
        return DPLROperator(diagonal, columns, columns)
    left, right = _product_rows(keys, betas, decays, order)
    return DPLROperator(diagonal, left.mT, right.mT)


def correction_spectrum(
    keys: Float[Tensor, "..."],
    betas: Float[Tensor, "..."] | None = None,
    log_decays: Float[Tensor, "..."] | None = None,
    order: FactorOrder = "decay_first",
    *,
    chunk: int = 512,
) -> Float[Tensor, "..."]:
    """Singular values of `prod D - A_T ... A_1` for many products at once, without gradients.

    The same numbers as `compose_factors(...).correction_singular_values()`, to an absolute error of
    about 1e-14 of the largest (float64). The columns are read `chunk` products at a time, so that
    they stay in a processor's cache; products whose columns are far from dependent need only their
    Gram matrices (`lt2theory.analysis.gram_spectrum`), the others a QR.

    Args:
        keys: As in `compose_factors`.
        betas: As in `compose_factors`.
        log_decays: As in `compose_factors`.
        order: As in `compose_factors`.
        chunk: Products taken together, at least 1.

    Returns:
        `[..., min(T, d)]`, descending; no values if `betas` is None.

    Raises:
        ValueError: As in `compose_factors`, or if `chunk` is below 1.
    """
    check_at_least("chunk", chunk, 1)
    if keys.ndim < 3 or keys.numel() == 0:
        with torch.no_grad():
            return compose_factors(keys, betas, log_decays, order).correction_singular_values()
    # Broadcast or mis-shaped arguments must not be flattened before they are checked.
    batch = keys.shape[:-2]
    for name, value in (("betas", betas), ("log_decays", log_decays)):
        if value is not None and value.shape[: len(batch)] != batch:
            expected = f"{list(batch)} and the factor axis"
            raise ValueError(f"{name}: shape {list(value.shape)} is not allowed ({expected})")
    _check_arguments(keys, betas, log_decays, order)
    count, width = keys.shape[-2:]
    if betas is None or count > min(width, MOST_FACTORS):
        parts = [
            compose_factors(k, b, g, order).correction_singular_values()
            for k, b, g in _chunks(keys.detach(), betas, log_decays, chunk)
        ]
        return torch.cat(parts).reshape(*batch, -1)
    with torch.no_grad():
        k, b, g = next(_chunks(keys.detach(), betas, log_decays, len(keys.flatten(0, -3))))
        assert b is not None, "checked above"
        return _by_grams(k, b, g, order, chunk).reshape(*batch, -1)


def _check_arguments(
    keys: Tensor, betas: Tensor | None, log_decays: Tensor | None, order: FactorOrder
) -> None:
    """Refuse what no sequence of factors is.

    Raises:
        ValueError: Naming the argument.
    """
    check_floating("keys", keys)
    check_order(order)
    if keys.ndim < 2:
        raise ValueError(f"keys: shape {list(keys.shape)} is not allowed (must be [..., T, d])")
    one_per_factor = tuple(keys.shape[:-1])
    if betas is not None:
        check_like("keys", keys, "betas", betas)
        check_shape("betas", betas, one_per_factor)
    if log_decays is not None:
        check_like("keys", keys, "log_decays", log_decays)
        check_shape("log_decays", log_decays, one_per_factor, tuple(keys.shape))


def _product_rows(
    keys: Tensor, betas: Tensor, decays: Tensor, order: FactorOrder
) -> tuple[Tensor, Tensor]:
    """Return the product's left and right columns, each as rows `[..., T, d]`.

    With `A_i = D_i - beta_i u_i w_i^T`, the left column of an earlier factor is carried through
    every later one, and the right column of a later factor through the earlier decays.
    """
    decayed = decays * keys
    u, w = (keys, decayed) if order == "decay_first" else (decayed, keys)
    u = betas[..., None] * u
    left, rights, earlier = u[..., :1, :], [w[..., :1, :]], decays[..., :1, :]
    for index in range(1, keys.shape[-2]):
        now = slice(index, index + 1)
        seen = left @ w[..., now, :].mT
        left = torch.cat([left * decays[..., now, :] - seen * u[..., now, :], u[..., now, :]], -2)
        rights.append(earlier * w[..., now, :])
        earlier = earlier * decays[..., now, :]
    return left, torch.cat(rights, -2)


def _by_grams(
    keys: Tensor, betas: Tensor, log_decays: Tensor | None, order: FactorOrder, chunk: int
) -> Tensor:
    """Return the spectra `[n T]` from Gram matrices, and by QR where those are not safe."""
    size = keys.shape[0]
    values = keys.new_empty(size, keys.shape[-2])
    safe = torch.empty(size, dtype=torch.bool, device=keys.device)
    for first in range(0, size, ALGEBRA_CHUNK):
        last = min(first + ALGEBRA_CHUNK, size)
        grams = []
        for start in range(first, last, chunk):
            part = slice(start, min(start + chunk, last))
            decays = None if log_decays is None else log_decays[part]
            if decays is not None and decays.ndim == keys.ndim:
                grams.append(vector_grams(keys[part], decays, order))
            else:
                grams.append(scalar_grams(keys[part], decays))
        found = gram_spectrum(join_grams(grams), betas[first:last], keys.shape[-1])
        values[first:last], safe[first:last] = found
    unsafe = (~safe).nonzero()[:, 0]
    for start in range(0, len(unsafe), chunk):
        rows = unsafe[start : start + chunk]
        decays = None if log_decays is None else log_decays[rows]
        operator = compose_factors(keys[rows], betas[rows], decays, order)
        values[rows] = operator.correction_singular_values()
    return values


def _chunks(
    keys: Tensor, betas: Tensor | None, log_decays: Tensor | None, chunk: int
) -> Iterator[tuple[Tensor, Tensor | None, Tensor | None]]:
    """Yield the arguments with one flat leading axis, `chunk` products at a time."""
    axes = keys.ndim - 2
    k = keys.flatten(0, axes - 1)
    b = None if betas is None else betas.detach().flatten(0, axes - 1)
    g = None if log_decays is None else log_decays.detach().flatten(0, axes - 1)
    for start in range(0, k.shape[0], chunk):
        part = slice(start, start + chunk)
        yield k[part], None if b is None else b[part], None if g is None else g[part]
