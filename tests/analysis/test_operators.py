"""DPLROperator against dense numpy matrices, one conformance class for every constructor."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lt2theory.analysis import DPLROperator, compose_factors
from tests.analysis.operator_cases import (
    ATOL,
    CASES,
    ORDERS,
    assert_same,
    case_product,
    dense_product,
    random_factors,
    tensor,
)


@pytest.mark.parametrize("name", CASES)
class TestConformance:
    """What every operator promises, whichever constructor made it."""

    def test_dense(self, name):
        assert_same(CASES[name](), lambda op: op.to_dense(), lambda matrix: matrix)

    def test_apply_vectors(self, name):
        x = torch.randn(2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
        assert_same(CASES[name](), lambda op: op.apply(x), lambda m: (m @ x[..., None])[..., 0])

    @pytest.mark.parametrize("width", [0, 1, 4])
    def test_apply_states(self, name, width):
        x = torch.randn(
            2, 5, width, dtype=torch.float64, generator=torch.Generator().manual_seed(4)
        )
        assert_same(CASES[name](), lambda op: op.apply(x), lambda m: m @ x)

    def test_inverse(self, name):
        assert_same(CASES[name](), lambda op: op.inverse().to_dense(), torch.linalg.inv, rtol=1e-8)

    def test_compose(self, name):
        other = case_product(2, "vector", "erase_first")
        fixed = other.build(*other.leaves)
        dense = other.dense(*other.leaves)
        assert_same(CASES[name](), lambda op: op.compose(fixed).to_dense(), lambda m: m @ dense)
        assert_same(CASES[name](), lambda op: fixed.compose(op).to_dense(), lambda m: dense @ m)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("decay", ["none", "scalar", "vector"])
@pytest.mark.parametrize(("count", "d"), [(1, 64), (4, 64), (63, 64), (80, 64), (80, 7), (5, 1)])
def test_many_factors_against_numpy(count, d, decay, order):
    keys, betas, log_decays = random_factors(count * d, (), count, d, decay)
    product, baseline = dense_product(keys, betas, log_decays, order)
    op = compose_factors(tensor(keys), tensor(betas), tensor(log_decays), order)
    assert op.num_columns == count
    np.testing.assert_allclose(op.to_dense().numpy(), product, atol=ATOL)
    np.testing.assert_allclose(np.diag(op.diagonal.numpy()), baseline, atol=ATOL)
    expected = np.linalg.svd(baseline - product, compute_uv=False)[: min(count, d)]
    values = op.correction_singular_values().numpy()
    np.testing.assert_allclose(values, expected, rtol=1e-8, atol=ATOL)
    assert int(op.rank(1e-6)) == (expected > 1e-6 * expected[0]).sum()


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    d=st.integers(1, 12),
    count=st.integers(0, 14),
    decay=st.sampled_from(["none", "scalar", "vector"]),
    order=st.sampled_from(ORDERS),
    split=st.integers(0, 14),
)
def test_any_split_composes_to_the_whole(seed, d, count, decay, order, split):
    keys, betas, log_decays = map(tensor, random_factors(seed, (3,), count, d, decay))
    cut = min(split, count)

    def part(window):
        decays = None if log_decays is None else log_decays[:, window]
        return compose_factors(keys[:, window], betas[:, window], decays, order)

    whole = part(slice(None))
    joined = part(slice(cut, None)).compose(part(slice(None, cut)))
    assert joined.num_columns == whole.num_columns == count
    torch.testing.assert_close(joined.to_dense(), whole.to_dense(), rtol=0, atol=ATOL)
    torch.testing.assert_close(joined.diagonal, whole.diagonal, rtol=1e-12, atol=0)
    torch.testing.assert_close(
        joined.correction_singular_values(),
        whole.correction_singular_values(),
        rtol=1e-9,
        atol=ATOL,
    )


def test_float32_stays_float32_and_is_close():
    keys, betas, log_decays = map(tensor, random_factors(5, (6,), 4, 16, "vector"))
    exact = compose_factors(keys, betas, log_decays)
    single = compose_factors(keys.float(), betas.float(), log_decays.float())
    assert single.correction_singular_values().dtype == torch.float32
    # float32 rounding, amplified by at most the condition of the products of four contractions.
    torch.testing.assert_close(single.to_dense().double(), exact.to_dense(), rtol=0, atol=1e-5)
    assert torch.equal(single.rank(1e-3), exact.rank(1e-3))


def test_leading_axes_broadcast_in_compose():
    keys, betas, _ = random_factors(6, (4, 3), 2, 5, "none")
    batched = compose_factors(tensor(keys), tensor(betas))
    single = compose_factors(tensor(keys[0, 0]), tensor(betas[0, 0]))
    expected = batched.to_dense() @ single.to_dense()
    torch.testing.assert_close(batched.compose(single).to_dense(), expected)


@pytest.mark.parametrize("order", ORDERS)
def test_zero_decay_has_a_determinant_and_no_inverse(order):
    key = torch.tensor([0.6, 0.8], dtype=torch.float64)
    beta = torch.tensor(0.5, dtype=torch.float64)
    log_decay = torch.tensor([-1000.0, -0.1], dtype=torch.float64)
    op = DPLROperator.from_factor(key, beta, log_decay, order)
    assert op.determinant().item() == pytest.approx(0, abs=1e-15)
    with pytest.raises(ValueError, match="diagonal: 0 is not allowed"):
        op.inverse()


def test_a_projection_has_no_inverse():
    op = DPLROperator.from_factor(
        torch.tensor([1.0, 0.0], dtype=torch.float64), torch.tensor(1.0, dtype=torch.float64)
    )
    assert op.logabsdet().item() == -np.inf
    with pytest.raises(ValueError, match="singular"):
        op.inverse()


ONES = torch.ones(2, 5, dtype=torch.float64)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: DPLROperator(ONES.half(), ONES[..., None], ONES[..., None]),
            "diagonal: .*float16",
        ),
        (lambda: DPLROperator(ONES, ONES, ONES[..., None]), "left: shape"),
        (lambda: DPLROperator(ONES, ONES[..., None], ONES.float()[..., None]), "right: .*float32"),
        (lambda: DPLROperator(ONES, ONES[..., None], ONES[..., None].expand(2, 5, 3)), "right: 3"),
        (lambda: DPLROperator.from_factor(ONES, ONES), "beta: shape"),
        (lambda: DPLROperator.from_factor(ONES, ONES[:, 0], ONES[:1]), "log_decay: shape"),
        (lambda: DPLROperator.identity((2,), 5).apply(ONES[:, :4]), "x: width 4"),
        (lambda: DPLROperator.identity((2,), 5).apply(ONES[0]), "x: 1 axes"),
        (lambda: DPLROperator.identity((2,), 5).apply(ONES.float()), "x: torch.float32"),
        (lambda: DPLROperator.identity((3,), 5).apply(ONES), "x: leading axes"),
        (
            lambda: DPLROperator.identity((2,), 5).compose(DPLROperator.identity((2,), 4)),
            "other: width 4",
        ),
        (lambda: DPLROperator.identity((2,), 5).rank(-0.1), "tol: -0.1"),
        (lambda: DPLROperator.identity((2,), 5).rank(1.0), "tol: 1.0"),
    ],
)
def test_errors_name_the_argument(make, message):
    with pytest.raises(ValueError, match=message):
        make()
