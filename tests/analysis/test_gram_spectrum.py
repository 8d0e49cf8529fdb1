"""Spectra from Gram matrices against dense products and their SVD."""

import numpy as np
import pytest
import torch

from lt2theory.analysis import DPLROperator, compose_factors, correction_spectrum
from lt2theory.analysis import composition as module
from lt2theory.analysis.gram_spectrum import (
    MOST_FACTORS,
    gram_spectrum,
    jacobi_singular_values,
    scalar_grams,
    vector_grams,
)

# Householder QR and SVD are right to some eps times the norm of the product of the columns.
ABSOLUTE = 2e-14


def factors_of(seed, n, count, d, decay, spread=1.0):
    """Unit keys, all within `spread` of one direction: the smaller, the nearer to dependent."""
    g = torch.Generator().manual_seed(seed)
    shared = torch.randn(n, 1, d, generator=g, dtype=torch.float64)
    own = torch.randn(n, count, d, generator=g, dtype=torch.float64)
    keys = torch.nn.functional.normalize((1 - spread) * shared + spread * own, dim=-1)
    betas = 2 * torch.rand(n, count, generator=g, dtype=torch.float64)
    shape = {"none": None, "scalar": betas.shape, "vector": keys.shape}[decay]
    decays = None if shape is None else -torch.rand(shape, generator=g, dtype=torch.float64)
    return keys, betas, decays


def dense_spectrum(keys, betas, decays, order):
    product = baseline = torch.eye(keys.shape[-1], dtype=keys.dtype)
    for i in range(keys.shape[-2]):
        decay = None if decays is None else decays[:, i]
        step = DPLROperator.from_factor(keys[:, i], betas[:, i], decay, order).to_dense()
        gate = DPLROperator.from_factor(keys[:, i], None, decay, order).to_dense()
        product, baseline = step @ product, gate @ baseline
    count = min(keys.shape[-2:])
    return torch.linalg.svdvals(baseline - product)[:, :count]


@pytest.mark.parametrize("order", ["decay_first", "erase_first"])
@pytest.mark.parametrize("decay", ["none", "scalar", "vector"])
@pytest.mark.parametrize("spread", [1.0, 0.3, 1e-3, 1e-9])
@pytest.mark.parametrize("count", [1, 2, 5, 8, 9])
def test_spectrum_is_that_of_the_dense_product(order, decay, spread, count):
    factors = factors_of(count, 40, count, 12, decay, spread)
    values = correction_spectrum(*factors, order)
    expected = dense_spectrum(*factors, order)
    assert (values.diff(dim=-1) <= 0).all()
    torch.testing.assert_close(values, expected, rtol=0, atol=ABSOLUTE * 2 ** min(count, 3))


def test_safe_products_need_no_qr_and_unsafe_ones_take_it(monkeypatch):
    """Half of the keys are independent, half nearly equal: only the latter are composed."""
    independent, close = factors_of(0, 30, 4, 32, "none"), factors_of(1, 20, 4, 32, "none", 1e-3)
    keys, betas = (torch.cat([a, b]) for a, b in zip(independent[:2], close[:2], strict=True))
    rows = []
    original = module.compose_factors

    def counted(keys, *rest):
        rows.append(len(keys))
        return original(keys, *rest)

    monkeypatch.setattr(module, "compose_factors", counted)
    values = correction_spectrum(keys, betas)
    assert rows == [20]
    expected = compose_factors(keys, betas).correction_singular_values()
    torch.testing.assert_close(values, expected, rtol=0, atol=ABSOLUTE)


def test_small_values_keep_their_accuracy():
    """Orthonormal keys: the values are the betas, over ten decades (theory R3)."""
    betas = torch.tensor([[1.5, 1e-4, 1e-8, 1e-10]], dtype=torch.float64)
    keys = torch.eye(6, dtype=torch.float64)[None, :4]
    values, safe = gram_spectrum(scalar_grams(keys, None), betas, 6)
    assert safe.all()
    torch.testing.assert_close(values, betas, rtol=1e-13, atol=0)


@pytest.mark.parametrize("order", ["decay_first", "erase_first"])
def test_zero_keys_and_dead_channels_are_finite(order):
    keys, betas, decays = factors_of(3, 6, 3, 8, "vector")
    keys[0] = 0
    keys[1, 1] = 0
    decays[2] = -1000.0
    values = correction_spectrum(keys, betas, decays, order)
    expected = dense_spectrum(keys, betas, decays, order)
    torch.testing.assert_close(values, expected, rtol=0, atol=ABSOLUTE)
    grams = vector_grams(keys, decays, order)
    _, safe = gram_spectrum(grams, betas, 8)
    assert not safe[:3].any()


def test_strong_scalar_decay_does_not_overflow():
    keys, betas, _ = factors_of(4, 5, 4, 8, "none")
    decays = torch.full_like(betas, -400.0)
    values = correction_spectrum(keys, betas, decays)
    assert values.isfinite().all()
    assert (values < 1e-300).all()


@pytest.mark.parametrize("size", range(1, MOST_FACTORS + 1))
def test_jacobi_is_numpys_svd(size):
    rng = np.random.default_rng(size)
    matrices = rng.standard_normal((200, size, size))
    matrices[0] = 0
    matrices[1, :, -1] = matrices[1, :, 0]
    matrices[2] *= 1e-150
    matrices[3] = np.eye(size)
    values = jacobi_singular_values(torch.from_numpy(matrices).permute(1, 2, 0).contiguous())
    expected = np.linalg.svd(matrices, compute_uv=False).T
    scale = np.maximum(expected[0], 1e-300)
    np.testing.assert_allclose(values.numpy() / scale, expected / scale, rtol=0, atol=5e-15)


def test_float32_stays_float32():
    keys, betas, decays = (x.float() for x in factors_of(5, 30, 4, 32, "vector"))
    values = correction_spectrum(keys, betas, decays)
    assert values.dtype == torch.float32
    expected = dense_spectrum(keys.double(), betas.double(), decays.double(), "decay_first")
    torch.testing.assert_close(values.double(), expected, rtol=0, atol=3e-6)
