"""Operators by every constructor, each beside an independent dense construction of it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from lt2theory.analysis import DPLROperator, compose_factors

ATOL = 1e-11  # float64, products of up to 80 factors of norm <= 1 and width <= 64
ORDERS = ("decay_first", "erase_first")


def random_factors(seed: int, batch: tuple[int, ...], count: int, d: int, decay: str):
    """Unit keys, beta in (0, 2) and log decays of the named kind, in float64."""
    rng = np.random.default_rng(seed)
    keys = rng.standard_normal((*batch, count, d))
    keys /= np.linalg.norm(keys, axis=-1, keepdims=True)
    betas = rng.uniform(0.05, 1.95, (*batch, count))
    shape = {"none": None, "scalar": betas.shape, "vector": keys.shape}[decay]
    log_decays = None if shape is None else -rng.exponential(0.3, shape)
    return keys, betas, log_decays


def dense_factor(key, beta, log_decay, order):
    """One transition as a numpy matrix, straight from its definition."""
    d = key.shape[-1]
    decay = np.eye(d) if log_decay is None else np.diag(np.exp(log_decay) * np.ones(d))
    erase = np.eye(d) - beta * np.outer(key, key)
    return erase @ decay if order == "decay_first" else decay @ erase


def dense_product(keys, betas, log_decays, order):
    """A_T ... A_1 and prod D as numpy matrices, for factors without leading axes."""
    d = keys.shape[-1]
    product, baseline = np.eye(d), np.eye(d)
    for tau in range(len(keys)):
        log_decay = None if log_decays is None else log_decays[tau]
        product = dense_factor(keys[tau], betas[tau], log_decay, order) @ product
        baseline = dense_factor(keys[tau], 0.0, log_decay, order) @ baseline
    return product, baseline


def tensor(array):
    return None if array is None else torch.from_numpy(np.asarray(array))


@dataclass
class Case:
    """Leaves, a constructor of the operator and an independent dense construction of it."""

    leaves: list[Tensor]
    build: Callable[..., DPLROperator]
    dense: Callable[..., Tensor]


def case_raw(columns: int = 3) -> Case:
    g = torch.Generator().manual_seed(0)
    diagonal = torch.rand(2, 5, dtype=torch.float64, generator=g) + 0.5
    left, right = (torch.randn(2, 5, columns, dtype=torch.float64, generator=g) for _ in range(2))

    def dense(diagonal, left, right):
        return torch.diag_embed(diagonal) - torch.einsum("bir,bjr->bij", left, right)

    return Case([diagonal, left, right], DPLROperator, dense)


def case_identity() -> Case:
    scale = torch.ones((), dtype=torch.float64)
    return Case(
        [scale],
        lambda scale: DPLROperator.identity((2,), 5),
        lambda scale: torch.eye(5, dtype=torch.float64).expand(2, 5, 5) + 0 * scale,
    )


def torch_factor(key, beta, log_decay, order):
    eye = torch.eye(key.shape[-1], dtype=key.dtype)
    erase = eye - beta[..., None, None] * key[..., :, None] * key[..., None, :]
    alpha = torch.ones_like(key) if log_decay is None else log_decay.exp()
    if alpha.ndim < key.ndim:
        alpha = alpha[..., None] * torch.ones_like(key)
    decay = torch.diag_embed(alpha)
    return erase @ decay if order == "decay_first" else decay @ erase


def case_factor(decay: str, order: str) -> Case:
    keys, betas, log_decays = random_factors(1, (2,), 1, 5, decay)
    leaves = [tensor(keys[:, 0]), tensor(betas[:, 0])]
    leaves += [] if log_decays is None else [tensor(log_decays[:, 0])]

    def build(key, beta, log_decay=None):
        return DPLROperator.from_factor(key, beta, log_decay, order)

    def dense(key, beta, log_decay=None):
        return torch_factor(key, beta, log_decay, order)

    return Case(leaves, build, dense)


def case_product(count: int, decay: str, order: str) -> Case:
    keys, betas, log_decays = random_factors(2, (2,), count, 5, decay)
    leaves = [tensor(keys), tensor(betas)] + ([] if log_decays is None else [tensor(log_decays)])

    def build(keys, betas, log_decays=None):
        return compose_factors(keys, betas, log_decays, order)

    def dense(keys, betas, log_decays=None):
        product = torch.eye(5, dtype=keys.dtype)
        for tau in range(count):
            decay = None if log_decays is None else log_decays[:, tau]
            product = torch_factor(keys[:, tau], betas[:, tau], decay, order) @ product
        return product

    return Case(leaves, build, dense)


def case_compose() -> Case:
    first, second = case_raw(2), case_raw(3)

    def build(*leaves):
        return DPLROperator(*leaves[3:]).compose(DPLROperator(*leaves[:3]))

    def dense(*leaves):
        return second.dense(*leaves[3:]) @ first.dense(*leaves[:3])

    second.leaves = [leaf.flip(1) * 0.7 for leaf in second.leaves]
    return Case(first.leaves + second.leaves, build, dense)


def case_inverse() -> Case:
    raw = case_raw(2)
    return Case(
        raw.leaves,
        lambda *leaves: DPLROperator(*leaves).inverse(),
        lambda *leaves: torch.linalg.inv(raw.dense(*leaves)),
    )


CASES = {
    "raw": case_raw,
    "raw without columns": lambda: case_raw(0),
    "raw with more columns than rows": lambda: case_raw(8),
    "identity": case_identity,
    "compose": case_compose,
    "inverse": case_inverse,
}
for _order in ORDERS:
    for _decay in ("none", "scalar", "vector"):
        CASES[f"from_factor {_decay} {_order}"] = lambda d=_decay, o=_order: case_factor(d, o)
        CASES[f"compose_factors {_decay} {_order}"] = lambda d=_decay, o=_order: case_product(
            3, d, o
        )


def gradients(function: Callable[..., Tensor], leaves: list[Tensor]):
    """The value and the gradients of a fixed random projection of it."""
    fresh = [leaf.clone().requires_grad_() for leaf in leaves]
    value = function(*fresh)
    weight = torch.randn(value.shape, dtype=value.dtype, generator=torch.Generator().manual_seed(9))
    loss = (value * weight).sum() + sum(0 * leaf.sum() for leaf in fresh)
    return value.detach(), list(torch.autograd.grad(loss, fresh))


def assert_same(case: Case, of_operator, of_dense, rtol: float = 1e-9) -> None:
    """Values and gradients of a quantity, by factors and from the dense matrix."""
    value, grads = gradients(lambda *leaves: of_operator(case.build(*leaves)), case.leaves)
    expected, expected_grads = gradients(lambda *leaves: of_dense(case.dense(*leaves)), case.leaves)
    torch.testing.assert_close(value, expected, rtol=rtol, atol=ATOL)
    for grad, expected_grad in zip(grads, expected_grads, strict=True):
        torch.testing.assert_close(grad, expected_grad, rtol=rtol, atol=ATOL)
