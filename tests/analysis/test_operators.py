"""DPLROperator against dense numpy matrices, one conformance class for every constructor."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
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

    def test_determinant(self, name):
        assert_same(CASES[name](), lambda op: op.determinant(), torch.linalg.det)

    def test_logabsdet(self, name):
        case = CASES[name]()
        assert_same(case, lambda op: op.logabsdet(), lambda m: torch.linalg.slogdet(m).logabsdet)

    def test_inverse(self, name):
        assert_same(CASES[name](), lambda op: op.inverse().to_dense(), torch.linalg.inv, rtol=1e-8)

    def test_compose(self, name):
        other = case_product(2, "vector", "erase_first")
        fixed = other.build(*other.leaves)
        dense = other.dense(*other.leaves)
        assert_same(CASES[name](), lambda op: op.compose(fixed).to_dense(), lambda m: m @ dense)
        assert_same(CASES[name](), lambda op: fixed.compose(op).to_dense(), lambda m: dense @ m)

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
