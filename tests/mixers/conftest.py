"""Small mixers in float64, and the comparison of a whole layer with a slow formula."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from lt2theory.mixers import MIXERS, LinearMixer, MixerOptions, Stream
from lt2theory.ops import run_factors

OPTIONS = MixerOptions(width=12, num_heads=3, head_dim=4, value_dim=5, num_kv_heads=3)


@pytest.fixture
def draw() -> Callable[..., LinearMixer]:
    """Draw a linear mixer by name, with every parameter away from its start."""

    def make(name: str, **changes: object) -> LinearMixer:
        mixer = MIXERS[name](replace(OPTIONS, **changes)).double()
        assert isinstance(mixer, LinearMixer)
        generator = torch.Generator().manual_seed(11)
        mixer.initialise(generator, 0.5)
        with torch.no_grad():
            for parameter in mixer.parameters():
                parameter += 0.2 * torch.randn(
                    parameter.shape, generator=generator, dtype=parameter.dtype
                )
        return mixer

    return make


@pytest.fixture
def unbroken() -> Callable[[int, int], Stream]:
    """One unbroken stream of so many rows and tokens."""
    return lambda batch, length: Stream(torch.arange(length).expand(batch, length))


@pytest.fixture
def is_the_layer(
    unbroken: Callable[[int, int], Stream],
) -> Callable[[LinearMixer, Callable[[LinearMixer, Tensor], Tensor]], None]:
    """Compare a layer (prepare, op, output) with a slow function of it: values and gradients."""

    def compare(mixer: LinearMixer, slow: Callable[[LinearMixer, Tensor], Tensor]) -> None:
        generator = torch.Generator().manual_seed(12)
        x = torch.randn(2, 19, mixer.options.width, generator=generator, dtype=torch.float64)
        weight = torch.randn(x.shape, generator=generator, dtype=torch.float64)
        inputs = [x.requires_grad_(), *mixer.parameters()]
        results = []
        for backend in ("chunked", "reference", None):
            if backend is None:
                y = slow(mixer, x)
            else:
                o, _ = run_factors(mixer.prepare(x, unbroken(2, 19)), backend=backend)
                y = mixer.output(o, x)
            results.append([y, *torch.autograd.grad((y * weight).sum(), inputs)])
        for fast in results[:2]:
            for got, expected in zip(fast, results[2], strict=True):
                assert expected.abs().max() > 1e-3  # a comparison of zeros shows nothing
                torch.testing.assert_close(got, expected, atol=1e-11, rtol=1e-9)

    return compare


@pytest.fixture
def convolve() -> Callable[[Tensor, Tensor], Tensor]:
    """`y_t = sum_i weight_i z_(t - w + 1 + i)`, tap by tap and token by token."""

    def causal(z: Tensor, weight: Tensor) -> Tensor:
        width = weight.shape[-1]
        tokens = []
        for t in range(z.shape[1]):
            y = torch.zeros_like(z[:, 0])
            for tap in range(width):
                if t - width + 1 + tap >= 0:
                    y = y + z[:, t - width + 1 + tap] * weight[:, 0, tap]
            tokens.append(y)
        return torch.stack(tokens, 1)

    return causal
