"""The measure of kernels: each error is what its definition says, and no wrong tensor is missed."""

import math

import pytest
import torch

from lt2theory.ops.agreement import Agreement, measure_agreement, relative_error


def product(inputs):
    return {"y": inputs["a"] * inputs["b"].sin()}


def measure(candidate, reference=product, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    inputs = {n: torch.randn(7, 5, generator=generator).to(dtype) for n in ("a", "b")}
    return measure_agreement(candidate, reference, inputs, generator=generator)


class WrongBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return 1.25 * gradient


def test_a_rounded_computation_agrees_to_its_precision():
    found = measure(product)
    assert set(found.values) == {"y"}
    assert set(found.gradients) == {"a", "b"}
    assert 0 < found.worst_value()[1] < 1e-7
    assert 0 < found.worst_gradient()[1] < 1e-7
    assert measure(product, dtype=torch.float64) == Agreement({"y": 0.0}, {"a": 0.0, "b": 0.0})


def test_a_gradient_off_by_a_factor_is_named_with_its_error():
    def wrong(inputs):
        return product({"a": inputs["a"], "b": WrongBackward.apply(inputs["b"])})

    found = measure(wrong)
    assert found.worst_value()[1] < 1e-7
    assert found.gradients["a"] < 1e-7
    name, error = found.worst_gradient()
    assert name == "b"
    assert error == pytest.approx(0.25, rel=1e-5)
    assert found.within(0.26)
    assert not found.within(0.2)


def test_a_wrong_value_is_found_with_right_gradients():
    found = measure(lambda inputs: {"y": product(inputs)["y"] + 1})
    assert found.worst_value()[1] > 0.5
    assert found.worst_gradient()[1] < 1e-7
    assert not found.within(0.1)


def test_a_missing_gradient_counts_as_zero():
    found = measure(lambda inputs: product({n: x.detach() for n, x in inputs.items()}))
    assert found.gradients == {"a": 1.0, "b": 1.0}
    one = measure(lambda inputs: product({**inputs, "a": inputs["a"].detach()}))
    assert one.gradients["a"] == 1.0
    assert one.gradients["b"] < 1e-7


def test_a_gradient_where_none_belongs_is_infinitely_wrong():
    def detached(inputs):
        return product({**inputs, "b": inputs["b"].detach()})

    assert measure(product, detached).gradients["b"] == math.inf
    # Neither has one: there is nothing to compare.
    assert set(measure(detached, detached).gradients) == {"a"}


def test_nan_and_infinity_are_infinitely_wrong():
    for bad in (math.nan, math.inf):
        found = measure(lambda inputs, bad=bad: {"y": product(inputs)["y"] * bad})
        assert found.worst_value() == ("y", math.inf)
        assert found.worst_gradient()[1] == math.inf


def test_relative_error_by_hand():
    wanted = torch.tensor([3.0, 4.0])
    assert relative_error(wanted + torch.tensor([0.0, 0.5]), wanted) == pytest.approx(0.1)
    assert relative_error(None, wanted) == 1.0
    assert relative_error(None, torch.zeros(2)) == 0.0
    assert relative_error(wanted, None) == math.inf
    assert relative_error(None, None) == 0.0
