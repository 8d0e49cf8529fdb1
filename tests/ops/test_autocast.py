"""Autocast around an op changes nothing in it."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from lt2theory.ops import Factors, run_factors, softmax_attention
from lt2theory.ops.autocast import own_precision, weights_rounded_anew


@pytest.mark.parametrize("backend", ["chunked", "reference"])
@pytest.mark.parametrize("decay", ["none", "scalar", "vector"])
def test_recurrence_keeps_its_precision(
    make_factors: Callable[..., Factors], backend: str, decay: str
) -> None:
    factors = make_factors(length=37, decay=decay, beta="uniform", dtype=torch.float32)
    o, state = run_factors(factors, backend=backend)
    with torch.autocast("cpu", torch.bfloat16):
        same = run_factors(factors, backend=backend)
        going_on = run_factors(factors, initial_state=same[1], backend=backend)
    assert torch.equal(o, same[0])
    assert torch.equal(state, same[1])
    assert going_on[1].dtype == torch.float32


def test_gradients_keep_their_precision(make_factors: Callable[..., Factors]) -> None:
    factors = make_factors(length=37, decay="vector", beta="uniform", dtype=torch.float32)
    grads = []
    for enabled in (False, True):
        k = factors.k.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            o, _ = run_factors(replace(factors, k=k))
        grads.append(torch.autograd.grad(o.square().sum(), k)[0])
    assert torch.equal(*grads)


@pytest.mark.parametrize("backend", ["chunked", "reference"])
def test_attention_keeps_its_precision(backend: str) -> None:
    generator = torch.Generator().manual_seed(2)
    q, k, v = (torch.randn(2, 9, 2, 4, generator=generator) for _ in range(3))
    o = softmax_attention(q, k, v, backend=backend)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(o, softmax_attention(q, k, v, backend=backend))


def test_outside_autocast_and_on_other_devices_nothing_happens() -> None:
    for device in ("cpu", "meta"):
        with own_precision(torch.device(device)):
            assert not torch.is_autocast_enabled("cpu")
    with torch.autocast("cpu", torch.bfloat16):
        with own_precision(torch.device("cpu")):
            assert not torch.is_autocast_enabled("cpu")
        assert torch.is_autocast_enabled("cpu")


def test_weights_are_rounded_anew_inside_and_not_kept() -> None:
    weight, x = torch.nn.Parameter(torch.ones(4, 4)), torch.ones(2, 4)

    def product() -> float:
        return float(torch.nn.functional.linear(x, weight)[0, 0].detach())

    with torch.autocast("cpu", torch.bfloat16):
        assert product() == 4.0
        with torch.no_grad():
            weight.mul_(2)
        assert product() == 4.0, "autocast keeps what it has rounded"
        with weights_rounded_anew():
            assert product() == 8.0
            with torch.no_grad():
                weight.mul_(2)
        assert product() == 16.0
