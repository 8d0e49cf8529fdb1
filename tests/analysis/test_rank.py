"""Effective ranks against their definitions in numpy, and their shared properties."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from lt2theory.analysis import effective_rank, numerical_rank

KINDS = ("entropy", "stable", "threshold", "participation")


def oracle(s: np.ndarray, kind: str) -> float:
    """One spectrum, straight from the four definitions."""
    if s.size == 0 or s.max() == 0:
        return 0.0
    if kind == "entropy":
        p = s[s > 0] / s.sum()
        return float(np.exp(-(p * np.log(p)).sum()))
    if kind == "stable":
        return float((s**2).sum() / s.max() ** 2)
    if kind == "threshold":
        return float((s > 1e-4 * s.max()).sum())
    return float((s**2).sum() ** 2 / (s**4).sum())


spectra = npst.arrays(
    np.float64,
    st.tuples(st.integers(1, 4), st.integers(1, 9)),
    elements=st.one_of(st.just(0.0), st.floats(1e-6, 1e6)),
)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=80, deadline=None)
@given(spectra=spectra)
def test_equals_its_definition_row_by_row(kind, spectra):
    expected = [oracle(row, kind) for row in spectra]
    value = effective_rank(torch.from_numpy(spectra), kind=kind)
    np.testing.assert_allclose(value.numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1.0, 1e200])
def test_equal_values_count_themselves_at_any_scale(kind, scale):
    s = torch.tensor([scale, scale, scale, 0.0, 0.0], dtype=torch.float64)
    assert effective_rank(s, kind=kind).item() == pytest.approx(3, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_zero_and_empty_spectra_have_rank_zero(kind):
    assert torch.equal(effective_rank(torch.zeros(2, 3), kind=kind), torch.zeros(2))
    assert torch.equal(effective_rank(torch.zeros(2, 0), kind=kind), torch.zeros(2))
    mixed = torch.tensor([[0.0, 0.0], [2.0, 0.0]])
    assert effective_rank(mixed, kind=kind).tolist() == [0.0, 1.0]


def test_known_values():
    s = torch.tensor([3.0, 1.0], dtype=torch.float64)
    entropy = np.exp(-0.75 * np.log(0.75) - 0.25 * np.log(0.25))
    assert effective_rank(s).item() == pytest.approx(entropy)
    assert effective_rank(s, kind="stable").item() == pytest.approx(10 / 9)
    assert effective_rank(s, kind="participation").item() == pytest.approx(100 / 82)
    cut = torch.tensor([1.0, 1.0001e-4, 1e-4], dtype=torch.float64)
    assert effective_rank(cut, kind="threshold").item() == 2


def test_is_differentiable_away_from_zero():
    s = torch.tensor([[3.0, 1.0, 0.5]], dtype=torch.float64, requires_grad=True)
    for kind in ("entropy", "stable", "participation"):
        assert torch.autograd.gradcheck(lambda s, kind=kind: effective_rank(s, kind=kind), s)


def test_a_zero_spectrum_does_not_poison_gradients():
    s = torch.tensor([[0.0, 0.0], [2.0, 1.0]], dtype=torch.float64, requires_grad=True)
    effective_rank(s, kind="stable").sum().backward()
    assert s.grad is not None
    assert torch.equal(s.grad[0], torch.zeros(2, dtype=torch.float64))
    assert s.grad[1].isfinite().all()
    assert s.grad[1].abs().max() > 0


def test_numerical_rank_counts_relative_to_the_largest():
    s = torch.tensor([[4.0, 0.4, 0.04], [0.0, 0.0, 0.0]])
    assert numerical_rank(s, 0.05).tolist() == [2, 0]
    assert numerical_rank(s, 0).tolist() == [3, 0]
    assert numerical_rank(s[:, :0], 0.05).tolist() == [0, 0]


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_impossible_spectra_are_refused(bad):
    s = torch.tensor([1.0, bad])
    with pytest.raises(ValueError, match=r"singular_values: .* .must be finite and >= 0"):
        effective_rank(s)
    with pytest.raises(ValueError, match=r"singular_values: .* .must be finite and >= 0"):
        numerical_rank(s, 1e-3)


def test_unknown_kind_lists_the_allowed_ones():
    with pytest.raises(
        ValueError, match=r"kind: 'nuclear' is not allowed \(choose from entropy, stable"
    ):
        effective_rank(torch.ones(2), kind="nuclear")


def test_a_scalar_is_no_spectrum():
    with pytest.raises(ValueError, match="singular_values: a scalar is not allowed"):
        effective_rank(torch.tensor(1.0))
    with pytest.raises(ValueError, match="singular_values: a scalar is not allowed"):
        numerical_rank(torch.tensor(1.0), 1e-3)
