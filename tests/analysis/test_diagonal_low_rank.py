"""Spectrum, rank and determinant by factors against dense numpy matrices."""

import numpy as np
import pytest
import torch

from lt2theory.analysis import DPLROperator, compose_factors
from tests.analysis.operator_cases import (
    ATOL,
    CASES,
    ORDERS,
    assert_same,
    case_product,
    gradients,
    random_factors,
    tensor,
)


@pytest.mark.parametrize("name", CASES)
class TestConformance:
    """What every operator promises, whichever constructor made it."""

    def test_determinant(self, name):
        assert_same(CASES[name](), lambda op: op.determinant(), torch.linalg.det)

    def test_logabsdet(self, name):
        case = CASES[name]()
        assert_same(case, lambda op: op.logabsdet(), lambda m: torch.linalg.slogdet(m).logabsdet)

    def test_singular_values_and_rank(self, name):
        case = CASES[name]()
        op = case.build(*case.leaves)
        correction = torch.diag_embed(op.diagonal) - case.dense(*case.leaves)
        expected = np.linalg.svd(correction.numpy(), compute_uv=False)
        count = min(op.num_columns, 5)
        values = op.correction_singular_values().numpy()
        assert values.shape == (2, count)
        np.testing.assert_allclose(values, expected[:, :count], rtol=1e-9, atol=ATOL)
        np.testing.assert_allclose(expected[:, count:], 0, atol=ATOL)
        for tol in (1e-10, 1e-3, 0.5):
            largest = expected[:, :1]
            reference = np.where(largest[:, 0] > 1e-12, (expected > tol * largest).sum(-1), 0)
            np.testing.assert_array_equal(op.rank(tol).numpy(), reference)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("decay", ["none", "scalar", "vector"])
def test_gradients_of_the_singular_values(decay, order):
    """The core is differentiable: the nuclear norm's gradient equals the dense one."""
    case = case_product(3, decay, order)

    def by_factors(*leaves):
        return case.build(*leaves).correction_singular_values()

    def by_matrix(*leaves):
        op = case.build(*leaves)
        return torch.linalg.svdvals(torch.diag_embed(op.diagonal) - case.dense(*leaves))[:, :3]

    value, grads = gradients(by_factors, case.leaves)
    expected, expected_grads = gradients(by_matrix, case.leaves)
    torch.testing.assert_close(value, expected, rtol=1e-9, atol=ATOL)
    for grad, expected_grad in zip(grads, expected_grads, strict=True):
        torch.testing.assert_close(grad, expected_grad, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("decay", ["none", "scalar", "vector"])
@pytest.mark.parametrize(("count", "d"), [(1, 1), (4, 64), (20, 64), (20, 7)])
def test_determinant_is_the_product_of_the_factors(count, d, decay, order):
    keys, betas, log_decays = random_factors(count + d, (3,), count, d, decay)
    betas = 1 + np.sign(betas - 1) * (0.5 + np.abs(betas - 1) / 2)  # |1 - beta| >= 1/2: condition
    op = compose_factors(tensor(keys), tensor(betas), tensor(log_decays), order)
    per_scalar = d if decay == "scalar" else 1
    decays = 0.0 if log_decays is None else per_scalar * log_decays.reshape(3, -1).sum(-1)
    erasures = 1 - betas
    logabsdet = decays + np.log(np.abs(erasures)).sum(-1)
    np.testing.assert_allclose(op.logabsdet().numpy(), logabsdet, rtol=0, atol=1e-6)
    expected = np.exp(logabsdet) * np.sign(erasures).prod(-1)
    np.testing.assert_allclose(op.determinant().numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_rank_survives_columns_whose_squares_leave_the_range(scale: float) -> None:
    generator = torch.Generator().manual_seed(6)
    left, right = (torch.randn(4, 2, generator=generator, dtype=torch.float64) for _ in range(2))
    plain = DPLROperator(torch.ones(4, dtype=torch.float64), left, right)
    scaled = DPLROperator(plain.diagonal, left * scale, right / scale)
    torch.testing.assert_close(
        scaled.correction_singular_values(), plain.correction_singular_values()
    )
    assert scaled.rank(1e-6) == 2
    # Two equal reflections still cancel.
    cancelling = torch.cat([left[:, :1], -left[:, :1]], 1)
    twice = DPLROperator(plain.diagonal, cancelling * scale, right[:, :1].repeat(1, 2) / scale)
    assert twice.rank(1e-6) == 0
