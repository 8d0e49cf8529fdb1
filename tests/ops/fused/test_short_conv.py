"""Convolution, silu, unit length and gates in one operator, against plain torch in float64.

In Triton's interpreter on any machine, and on a GPU where there is one.
"""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.mixers.decay import mamba_decay, on_first_factor
from lt2theory.mixers.norm import unit
from lt2theory.mixers.short_conv import short_convolution
from lt2theory.mixers.stream import Stream
from lt2theory.ops.fused.short_conv import delta_inputs, padding

DEVICES = [
    pytest.param("cpu", marks=pytest.mark.interpreter),
    pytest.param("cuda", marks=pytest.mark.gpu),
]
SIZES = [[1, 1, 16, 16, 2], [2, 3, 24, 40, 1], [4, 1, 32, 32, 1]]
WIDE = [1, 1, 72, 136, 1]  # stretches of half the tokens, values in two tiles


def plain(inputs: list[Tensor], sizes: list[int], segments: Tensor | None = None) -> list[Tensor]:
    z, taps, *gates = inputs
    heads, factors, key_width, value_width, beta_range = sizes
    channels, betas = len(taps), factors * heads
    past = None if segments is None else segments[:, :0]
    stream = Stream(torch.arange(z.shape[1]).expand(z.shape[:2]), segments, past)
    y = F.silu(short_convolution(z[..., :channels], taps[:, None], stream))
    keys, values = heads * key_width, factors * heads * value_width
    q, k, v = y.split([keys, factors * keys, values], -1)
    q, k = unit(q.unflatten(-1, (heads, -1))), unit(k.unflatten(-1, (factors, heads, -1)))
    beta = beta_range * torch.sigmoid(z[..., channels : channels + betas])
    found = [q, k, v.unflatten(-1, (factors, heads, -1)), beta.unflatten(-1, (factors, heads))]
    if gates:
        raw = z[..., channels + betas : channels + betas + heads]
        found.append(on_first_factor(mamba_decay(raw, *gates, key_width), factors))
    return found


def problem(sizes: list[int], length: int, width: int, *, decays: bool = True) -> list[Tensor]:
    rng = torch.Generator().manual_seed(3)
    heads, factors, keys, values, _ = sizes
    channels = heads * (keys + factors * (keys + values))
    columns = channels + heads * (factors + decays)
    shapes = [(2, length, columns + padding(columns)), (channels, width)] + decays * [(heads,)] * 2
    inputs = [torch.randn(shape, generator=rng, dtype=torch.float64) for shape in shapes]
    inputs[0][0, 0, channels:] -= 8.0  # small steps of the decay are exact too
    return inputs


def packed(length: int) -> Tensor:
    """Segments that begin inside a stretch, at its border and one token later, behind padding."""
    starts = torch.zeros(2, length, dtype=torch.int64)
    starts[0, [t for t in (2, 3, 64, 65, 100) if t < length]] = 1
    starts[1, [t for t in (5, 63, 128) if t < length]] = 1
    segments = starts.cumsum(1)
    segments[1] -= 1
    return segments


def run(inputs: list[Tensor], sizes: list[int], segments: Tensor | None = None) -> list[Tensor]:
    z, taps, *gates = inputs
    segments = None if segments is None else segments.to(z.device)
    found = delta_inputs(z, taps, *(gates or (None, None)), sizes, segments)
    return list(found if gates else found[:4])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("length", "width"), [(1, 4), (67, 4), (130, 3)])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("is_packed", [False, True])
def test_values_and_gradients(
    device: str, dtype: torch.dtype, length: int, width: int, sizes: list[int], is_packed: bool
) -> None:
    compare(device, dtype, length, width, sizes, is_packed)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("is_packed", [False, True])
def test_wide_heads(device: str, is_packed: bool) -> None:
    compare(device, torch.float32, 67, 4, WIDE, is_packed)


def compare(
    device: str, dtype: torch.dtype, length: int, width: int, sizes: list[int], is_packed: bool
) -> None:
    decays = sizes != SIZES[2]
    segments = packed(length) if is_packed else None
    inputs = problem(sizes, length, width, decays=decays)
    given = [x.to(device, dtype).requires_grad_() for x in inputs]
    exact = [x.detach().cpu().double().requires_grad_() for x in given]
    wanted, found = plain(exact, sizes, segments), run(given, sizes, segments)
    rng = torch.Generator().manual_seed(4)
    weights = [torch.randn(w.shape, generator=rng, dtype=torch.float64) for w in wanted]
    sum((w * x).sum() for w, x in zip(weights, wanted, strict=True)).backward()
    sum((w.to(device, x.dtype) * x).sum() for w, x in zip(weights, found, strict=True)).backward()
    assert {x.dtype for x in found} == {torch.float32}
    for x, w in zip(found, wanted, strict=True):
        torch.testing.assert_close(x.cpu().double(), w, atol=1e-5, rtol=1e-4)
    for x, w in zip(given, exact, strict=True):
        assert x.grad is not None
        assert w.grad is not None
        assert x.grad.dtype == dtype
        error = (x.grad.cpu().double() - w.grad).norm() / w.grad.norm()
        assert error <= (1e-5 if dtype == torch.float32 else 4e-3)
    if decays:  # relative, however small
        torch.testing.assert_close(found[4].cpu().double(), wanted[4], atol=0, rtol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
def test_no_token_hears_a_later_one(device: str) -> None:
    sizes = SIZES[1]
    inputs = [x.to(device, torch.float32) for x in problem(sizes, 70, 4)]
    changed = [inputs[0].clone(), *inputs[1:]]
    changed[0][:, 65:] = torch.nan
    for x, y in zip(run(inputs, sizes), run(changed, sizes), strict=True):
        assert torch.equal(x[:, :65], y[:, :65])
        assert y[:, 65:].isnan().any()


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_are_the_same_twice_and_have_no_gradients_themselves(device: str) -> None:
    sizes = SIZES[1]
    inputs = [x.to(device, torch.float32) for x in problem(sizes, 131, 4)]
    grads = []
    for _ in range(2):
        given = [x.clone().requires_grad_() for x in inputs]
        loss = sum(x.square().sum() for x in run(given, sizes))
        assert isinstance(loss, Tensor)
        grads.append(torch.autograd.grad(loss, given))
    assert all(torch.equal(x, y) for x, y in zip(*grads, strict=True))
    loss = run(given, sizes)[2].sum()
    with pytest.raises(ValueError, match="first derivatives"):
        torch.autograd.grad(loss, given, create_graph=True)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("decays", [True, False])
@pytest.mark.parametrize("is_packed", [False, True])
def test_is_an_operator_of_torch(device: str, decays: bool, is_packed: bool) -> None:
    sizes = SIZES[1]
    inputs = problem(sizes, 9, 4, decays=decays)
    z, taps, *gates = (x.to(device, torch.float32).requires_grad_() for x in inputs)
    segments = packed(9).to(device) if is_packed else None
    torch.library.opcheck(delta_inputs, (z, taps, *(gates or (None, None)), sizes, segments))
