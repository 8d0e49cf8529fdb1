"""Convolution, silu and unit length in one operator, against plain torch in float64.

In Triton's interpreter on any machine, and on a GPU where there is one.
"""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.mixers.norm import unit
from lt2theory.mixers.short_conv import short_convolution
from lt2theory.mixers.stream import Stream

DEVICES = [
    pytest.param("cpu", marks=pytest.mark.interpreter),
    pytest.param("cuda", marks=pytest.mark.gpu),
]
SIZES = [[1, 1, 16, 16], [2, 3, 24, 40], [4, 1, 32, 32]]


def plain(z: Tensor, taps: Tensor, sizes: list[int]) -> list[Tensor]:
    heads, factors, key_width, value_width = sizes
    stream = Stream(torch.arange(z.shape[1]).expand(z.shape[:2]))
    y = F.silu(short_convolution(z, taps[:, None], stream))
    keys, values = heads * key_width, factors * heads * value_width
    q, k, v = y.split([keys, factors * keys, values], -1)
    q, k = unit(q.unflatten(-1, (heads, -1))), unit(k.unflatten(-1, (factors, heads, -1)))
    return [q, k, v.unflatten(-1, (factors, heads, -1))]


def problem(sizes: list[int], length: int, width: int) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(3)
    heads, factors, keys, values = sizes
    channels = heads * (keys + factors * (keys + values))
    normal = {"generator": rng, "dtype": torch.float64}
    return torch.randn(2, length, channels, **normal), torch.randn(channels, width, **normal)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("length", "width"), [(1, 4), (67, 4), (130, 3)])
@pytest.mark.parametrize("sizes", SIZES)
def test_values_and_gradients(
    device: str, dtype: torch.dtype, length: int, width: int, sizes: list[int]
) -> None:
    from lt2theory.ops.fused.short_conv import delta_inputs

    given = [x.to(device, dtype).requires_grad_() for x in problem(sizes, length, width)]
    exact = [x.detach().cpu().double().requires_grad_() for x in given]
    wanted, found = plain(*exact, sizes), delta_inputs(*given, sizes)
    rng = torch.Generator().manual_seed(4)
    weights = [torch.randn(w.shape, generator=rng, dtype=torch.float64) for w in wanted]
    sum((w * x).sum() for w, x in zip(weights, wanted, strict=True)).backward()
    sum((w.to(device, x.dtype) * x).sum() for w, x in zip(weights, found, strict=True)).backward()
    assert [x.dtype for x in found] == 3 * [torch.float32]
    for x, w in zip(found, wanted, strict=True):
        torch.testing.assert_close(x.cpu().double(), w, atol=1e-5, rtol=1e-4)
    for x, w in zip(given, exact, strict=True):
        assert x.grad is not None
        assert w.grad is not None
        assert x.grad.dtype == dtype
        error = (x.grad.cpu().double() - w.grad).norm() / w.grad.norm()
        assert error <= (1e-5 if dtype == torch.float32 else 4e-3)


@pytest.mark.parametrize("device", DEVICES)
def test_no_token_hears_a_later_one(device: str) -> None:
    from lt2theory.ops.fused.short_conv import delta_inputs

    sizes = SIZES[1]
    z, taps = (x.to(device, torch.float32) for x in problem(sizes, 70, 4))
    changed = z.clone()
    changed[:, 65:] = torch.nan
    for x, y in zip(delta_inputs(z, taps, sizes), delta_inputs(changed, taps, sizes), strict=True):
        assert torch.equal(x[:, :65], y[:, :65])
        assert y[:, 65:].isnan().any()


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_are_the_same_twice_and_have_no_gradients_themselves(device: str) -> None:
    from lt2theory.ops.fused.short_conv import delta_inputs

    sizes = SIZES[1]
    z, taps = (x.to(device, torch.float32) for x in problem(sizes, 131, 4))
    grads = []
    for _ in range(2):
        given = [z.clone().requires_grad_(), taps.clone().requires_grad_()]
        loss = sum(x.square().sum() for x in delta_inputs(*given, sizes))
        assert isinstance(loss, Tensor)
        grads.append(torch.autograd.grad(loss, given))
    assert all(torch.equal(x, y) for x, y in zip(*grads, strict=True))
    loss = delta_inputs(*given, sizes)[2].sum()
    with pytest.raises(ValueError, match="first derivatives"):
        torch.autograd.grad(loss, given, create_graph=True)
