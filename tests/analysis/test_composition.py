"""Products by factors: the fast rows against step-by-step composition, and the chunked spectrum."""

from functools import reduce

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lt2theory.analysis import DPLROperator, compose_factors, correction_spectrum

ORDERS = ("decay_first", "erase_first")


def random_factors(seed, batch, count, d, decay):
    g = torch.Generator().manual_seed(seed)
    keys = torch.nn.functional.normalize(
        torch.randn(*batch, count, d, generator=g, dtype=torch.float64), dim=-1
    )
    betas = 2 * torch.rand(*batch, count, generator=g, dtype=torch.float64)
    shape = {"none": None, "scalar": betas.shape, "vector": keys.shape}[decay]
    if shape is None:
        return keys, betas, None
    return keys, betas, -torch.rand(shape, generator=g, dtype=torch.float64)


def step_by_step(keys, betas, log_decays, order):
    """The readable twin: one factor after another, later ones on the left."""
    start = DPLROperator.identity(keys.shape[:-2], keys.shape[-1])
    steps = [
        DPLROperator.from_factor(
            keys[..., i, :],
            None if betas is None else betas[..., i],
            None if log_decays is None else log_decays[:, i],
            order,
        )
        for i in range(keys.shape[-2])
    ]
    return reduce(lambda product, step: step.compose(product), steps, start)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    count=st.integers(0, 9),
    d=st.integers(1, 7),
    decay=st.sampled_from(["none", "scalar", "vector"]),
    order=st.sampled_from(ORDERS),
    erases=st.booleans(),
)
def test_rows_equal_step_by_step(seed, count, d, decay, order, erases):
    keys, betas, log_decays = random_factors(seed, (3,), count, d, decay)
    betas = betas if erases else None
    fast = compose_factors(keys, betas, log_decays, order)
    slow = step_by_step(keys, betas, log_decays, order)
    assert fast.num_columns == slow.num_columns == (count if erases else 0)
    for ours, theirs in ((fast.diagonal, slow.diagonal), (fast.left, slow.left)):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(fast.right, slow.right, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("decay", ["scalar", "vector"])
def test_gradients_equal_step_by_step(decay, order):
    leaves = [x.requires_grad_() for x in random_factors(0, (2,), 5, 4, decay)]
    weight = torch.randn(2, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def grads(product):
        return torch.autograd.grad((product(*leaves, order).to_dense() * weight).sum(), leaves)

    for ours, theirs in zip(grads(compose_factors), grads(step_by_step), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("chunk", [1, 4, 512])
@pytest.mark.parametrize("batch", [(), (7,), (3, 5), (2, 0)])
@pytest.mark.parametrize("decay", ["none", "scalar", "vector"])
def test_spectrum_does_not_depend_on_the_chunk(decay, batch, chunk):
    factors = random_factors(3, batch, 4, 6, decay)
    expected = compose_factors(*factors).correction_singular_values()
    values = correction_spectrum(*factors, chunk=chunk)
    assert values.shape == (*batch, 4)
    torch.testing.assert_close(values, expected, rtol=1e-12, atol=1e-14)
    assert correction_spectrum(factors[0], None, factors[2], chunk=chunk).shape == (*batch, 0)


def test_strong_decay_neither_overflows_nor_loses_the_last_factor():
    keys, betas, _ = random_factors(5, (2,), 3, 4, "none")
    log_decays = torch.full((2, 3), -1000.0, dtype=torch.float64)
    op = compose_factors(keys, betas, log_decays)
    assert op.to_dense().abs().max().item() == 0
    assert op.rank().tolist() == [0, 0]
    log_decays[:, 0] = 0  # the first factor's correction is then wiped by the others' decays
    assert compose_factors(keys, betas, log_decays).to_dense().isfinite().all()


ONES = torch.ones(2, 5, dtype=torch.float64)


@pytest.mark.parametrize("product", [compose_factors, correction_spectrum])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((ONES[0],), r"keys: shape \[5\]"),
        ((ONES.half(),), r"keys: torch.float16"),
        ((ONES, ONES), "betas: shape"),
        ((ONES, ONES[:, 0].float()), "betas: torch.float32"),
        ((ONES, ONES[:, 0], ONES[:, :2]), "log_decays: shape"),
        ((ONES[None], ONES[:, 0]), "betas: shape"),
        ((ONES[None], ONES[None, :, 0], ONES), "log_decays: shape"),
    ],
)
def test_errors_name_the_argument(product, arguments, message):
    with pytest.raises(ValueError, match=message):
        product(*arguments)


def test_chunk_must_be_positive():
    with pytest.raises(ValueError, match="chunk: 0 is not allowed"):
        correction_spectrum(ONES[None], chunk=0)
