"""The rank claims of the theory (R1 to R14) on worked examples, through DPLROperator in float64."""

import itertools

import numpy as np
import pytest
import torch

from lt2theory.analysis import DPLROperator, compose_factors, effective_rank

ORDERS = ("decay_first", "erase_first")


def t(array):
    return torch.as_tensor(np.asarray(array, dtype=np.float64))


def unit_keys(seed, *shape):
    keys = np.random.default_rng(seed).standard_normal(shape)
    return keys / np.linalg.norm(keys, axis=-1, keepdims=True)


@pytest.mark.parametrize("seed", range(3))
def test_r1_compact_wy(seed):
    keys, beta = unit_keys(seed, 5, 9), np.random.default_rng(seed).uniform(0, 2, 5)
    beta[2] = 0  # the second form of the claim holds for any beta
    M = np.linalg.inv(np.eye(5) + np.diag(beta) @ np.tril(keys @ keys.T, -1)) @ np.diag(beta)
    dense = compose_factors(t(keys), t(beta)).to_dense().numpy()
    np.testing.assert_allclose(np.eye(9) - dense, keys.T @ M @ keys, atol=1e-13)


@pytest.mark.parametrize("order", ORDERS)
def test_r13_gated_compact_wy(order):
    rng = np.random.default_rng(4)
    keys, beta = unit_keys(4, 5, 9), rng.uniform(0.1, 1.9, 5)
    D = np.exp(-rng.exponential(0.4, (5, 9)))

    def between(start, stop):
        return D[start:stop].prod(0)

    erase_first = order == "erase_first"
    At = np.stack([between(tau + (not erase_first), 5) * keys[tau] for tau in range(5)], 1)
    B = np.stack([between(0, tau + (not erase_first)) * keys[tau] for tau in range(5)], 1)
    G = np.zeros((5, 5))
    for sigma, tau in itertools.combinations(range(5), 2):
        seen = between(sigma + (not erase_first), tau + (not erase_first))
        G[tau, sigma] = keys[tau] @ (seen * keys[sigma])
    M = np.linalg.inv(np.diag(1 / beta) + G)
    operator = compose_factors(t(keys), t(beta), t(np.log(D)), order)
    correction = np.diag(operator.diagonal.numpy()) - operator.to_dense().numpy()
    np.testing.assert_allclose(correction, At @ M @ B.T, atol=1e-13)


def test_r2_independent_keys_need_not_be_orthogonal():
    keys = unit_keys(1, 4, 4) * 0.05 + np.array([1.0, 0, 0, 0])
    assert compose_factors(t(keys), t(np.full(4, 0.7))).rank().item() == 4


def test_r3_orthogonal_keys_give_the_betas():
    keys = np.linalg.qr(np.random.default_rng(0).standard_normal((7, 4)))[0].T * 1.3
    beta = np.array([0.2, 1.9, 0.0, 0.8])
    values = compose_factors(t(keys), t(beta)).correction_singular_values()
    np.testing.assert_allclose(values.numpy(), np.sort(beta * 1.69)[::-1], atol=1e-14)
    equal = compose_factors(t(keys), t(np.full(4, 0.6))).correction_singular_values()
    assert effective_rank(equal).item() == pytest.approx(4)


@pytest.mark.parametrize("seed", range(5))
def test_r4_conditioning_bound(seed):
    keys, beta = unit_keys(seed, 3, 4), np.random.default_rng(seed).uniform(0.1, 2, 3)
    core = np.diag(1 / beta) + np.tril(keys @ keys.T, -1)
    bound = np.linalg.svd(keys)[1][-1] ** 2 / np.linalg.norm(core, 2)
    values = compose_factors(t(keys), t(beta)).correction_singular_values()
    assert values[-1].item() >= bound - 1e-14


def test_r4_rank_can_be_numerically_invisible():
    keys = np.array([[1.0, 0, 0], [1, 1e-5, 0]])
    operator = compose_factors(t(keys), t([1.0, 1.0]))
    assert operator.rank(1e-12).item() == 2
    values = operator.correction_singular_values()
    assert effective_rank(values, kind="threshold").item() == 1
    assert effective_rank(values).item() < 1.001


@pytest.mark.parametrize("count", [2, 4, 40, 80])
@pytest.mark.parametrize("d", [1, 2, 16, 64])
def test_r5_an_even_number_of_equal_reflections_is_nothing(count, d):
    keys = np.repeat(unit_keys(d, 20, 1, d), count, axis=1)
    operator = compose_factors(t(keys), t(np.full((20, count), 2.0)))
    values = operator.correction_singular_values()
    assert torch.equal(values, torch.zeros_like(values))
    assert torch.equal(operator.rank(), torch.zeros(20, dtype=torch.int64))
    assert torch.equal(effective_rank(values), torch.zeros(20, dtype=torch.float64))


@pytest.mark.parametrize("count", [1, 3, 7])
def test_r5_collinear_keys_collapse_to_rank_one(count):
    key = 1.2 * unit_keys(3, 6)
    operator = compose_factors(t(np.tile(key, (count, 1))), t(np.full(count, 0.9)))
    values = operator.correction_singular_values().numpy()
    np.testing.assert_allclose(values[0], abs(1 - (1 - 0.9 * 1.44) ** count), rtol=1e-12)
    assert operator.rank().item() == 1


def test_r5_three_reflections_in_a_plane_have_rank_one():
    angles = np.deg2rad([0.0, 25.0, 70.0])
    keys = np.stack([np.cos(angles), np.sin(angles), 0 * angles], 1)
    assert np.linalg.matrix_rank(keys) == 2
    operator = compose_factors(t(keys), t([2.0, 2.0, 2.0]))
    assert operator.rank().item() == 1
    assert compose_factors(t(keys), t([1.9, 1.9, 1.9])).rank().item() == 2  # R14


@pytest.mark.parametrize("order", ORDERS)
def test_r6_scalar_gates_scale_the_ungated_correction(order):
    keys, beta = unit_keys(6, 3, 8), np.array([0.4, 1.5, 1.0])
    log_alpha = np.array([-0.1, -0.7, -0.3])
    gated = compose_factors(t(keys), t(beta), t(log_alpha), order).correction_singular_values()
    plain = compose_factors(t(keys), t(beta)).correction_singular_values()
    np.testing.assert_allclose(gated.numpy(), np.exp(-1.1) * plain.numpy(), rtol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_r7_identical_keys_reach_rank_two_with_identical_gates(order):
    keys = t([[0.6, 0.8], [0.6, 0.8]])
    log_decay = t(np.log([[0.5, 1.0], [0.5, 1.0]]))
    operator = compose_factors(keys, t([1.0, 1.0]), log_decay, order)
    assert operator.rank().item() == 2
    without = compose_factors(keys, t([1.0, 1.0]), t(np.log([[0.5, 0.5]] * 2)), order)
    assert without.rank().item() == 1


@pytest.mark.parametrize("order", ORDERS)
def test_r7_needs_as_many_decays_as_loops(order):
    key = unit_keys(7, 5)
    for distinct in (1, 2, 3, 4):
        decays = np.resize(np.linspace(0.3, 1.0, distinct), 5)
        log_decay = t(np.log(np.tile(decays, (4, 1))))
        operator = compose_factors(t(np.tile(key, (4, 1))), t(np.full(4, 0.8)), log_decay, order)
        assert operator.rank(1e-9).item() == distinct


def test_r8_without_erasure_there_is_no_correction():
    keys, log_decay = unit_keys(8, 3, 4, 6), -np.random.default_rng(8).exponential(1, (3, 4, 6))
    operator = compose_factors(t(keys), None, t(log_decay))
    assert operator.num_columns == 0
    assert operator.correction_singular_values().shape == (3, 0)
    assert operator.rank().tolist() == [0, 0, 0]
    assert operator.determinant().numpy() == pytest.approx(np.exp(log_decay.sum((1, 2))))
    zero = compose_factors(t(keys), t(np.zeros((3, 4))), t(log_decay))
    assert zero.rank().tolist() == [0, 0, 0]


def test_r10_the_baseline_decides_the_rank():
    keys, beta = unit_keys(10, 2, 8), np.array([0.5, 1.2])
    operator = compose_factors(t(keys), t(beta), t([-0.1, -0.2]))
    assert operator.rank().item() == 2
    assert np.linalg.matrix_rank(operator.to_dense().numpy() - np.eye(8)) == 8


def test_r12_volume_law():
    keys, beta = unit_keys(12, 4, 6), np.array([0.3, 1.7, 2.0, 0.9])
    values = compose_factors(t(keys), t(beta)).correction_singular_values().numpy()
    np.testing.assert_allclose(
        values.prod(), beta.prod() * np.linalg.det(keys @ keys.T), rtol=1e-12
    )


@pytest.mark.parametrize("order", ORDERS)
def test_r13_independent_keys_can_fail_at_two_loops(order):
    D = np.array([[0.5, 1.0, 0.8], [0.9, 0.3, 1.0]])
    k1 = unit_keys(13, 3)
    k2 = (D[1] if order == "decay_first" else D[0]) * k1
    assert np.linalg.matrix_rank(np.stack([k1, k2])) == 2
    operator = compose_factors(t(np.stack([k1, k2])), t([0.7, 1.3]), t(np.log(D)), order)
    assert operator.rank().item() == 1
    other = "erase_first" if order == "decay_first" else "decay_first"
    assert compose_factors(t(np.stack([k1, k2])), t([0.7, 1.3]), t(np.log(D)), other).rank() == 2


def test_r13_orthogonal_keys_can_fail_at_three_loops():
    keys = np.array([[1, 2, 2], [-2, -1, 2], [2, -2, 1]]) / 3
    np.testing.assert_allclose(keys @ keys.T, np.eye(3), atol=1e-15)
    D = np.array([[1, 1, 1], [1, 1 / 16, 1 / 8], [1, 1, 1 / 8]])
    for beta in ([1.0, 1.0, 1.0], [0.3, 1.9, 0.8]):
        assert compose_factors(t(keys), t(beta), t(np.log(D))).rank().item() == 2
    assert compose_factors(t(keys), t([1.0, 1.0, 1.0])).rank().item() == 3


def test_orders_differ_on_the_smallest_witness():
    key, beta = t(np.array([1.0, 1.0]) / np.sqrt(2)), t(1.0)
    log_decay = t(np.log([0.5, 1.0]))
    first, second = (DPLROperator.from_factor(key, beta, log_decay, o).to_dense() for o in ORDERS)
    np.testing.assert_allclose(first.numpy(), [[0.25, -0.5], [-0.25, 0.5]], atol=1e-15)
    np.testing.assert_allclose(second.numpy(), first.numpy().T, atol=1e-15)


def test_e6_products_of_projections_have_negative_eigenvalues():
    angles = np.deg2rad([0.0, 60.0, 120.0])
    keys = np.stack([np.cos(angles), np.sin(angles)], 1)
    eigenvalues = np.linalg.eigvals(compose_factors(t(keys), t(np.ones(3))).to_dense().numpy())
    assert eigenvalues.real.min() == pytest.approx(-1 / 8)
    keys = np.array([[1.0, -1.0], [1.0, 1.0]]) / np.sqrt(2)
    log_decay = np.log([[1.0, 0.5], [0.5, 1.0]])
    product = compose_factors(t(keys), t(np.ones(2)), t(log_decay)).to_dense().numpy()
    assert np.linalg.eigvals(product).real.min() == pytest.approx(-1 / 16)
