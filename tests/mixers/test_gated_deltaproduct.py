"""Gated DeltaProduct against its recurrence, Gated DeltaNet and FLA's layer."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.mixers import MIXERS, LinearMixer, MixerOptions, Stream
from lt2theory.ops import run_factors

Draw = Callable[..., LinearMixer]
IsTheLayer = Callable[[LinearMixer, Callable[[LinearMixer, Tensor], Tensor]], None]


@pytest.mark.conforms(
    "values", "gradients", mixer="gated_deltaproduct", backend=("chunked", "reference")
)
@pytest.mark.parametrize("num_factors", [1, 2, 3])
@pytest.mark.parametrize("grain", ["own", "none"])
@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("conv_width", [0, 3])
def test_the_layer_is_its_recurrence(
    draw: Draw,
    is_the_layer: IsTheLayer,
    convolve: Callable[[Tensor, Tensor], Tensor],
    num_factors: int,
    grain: str,
    negative: bool,
    conv_width: int,
) -> None:
    def slow(mixer: LinearMixer, x: Tensor) -> Tensor:
        """Decay once, then erase and write with every factor in turn, then read."""

        def projected(letter: str) -> Tensor:
            z = x @ getattr(mixer, f"{letter}_proj").weight.T
            if conv_width:
                z = convolve(z, getattr(mixer, f"{letter}_conv1d").weight)
            return z * torch.sigmoid(z)

        def unit(z: Tensor) -> Tensor:
            return z / (z.square().sum(-1, keepdim=True) + 1e-6).sqrt()

        q = unit(projected("q").reshape(2, -1, 3, 4)) / 2
        k = unit(projected("k").reshape(2, -1, num_factors, 3, 4))
        v = projected("v").reshape(2, -1, num_factors, 3, 5)
        beta = (1 + negative) * torch.sigmoid(x @ mixer.b_proj.weight.T)
        beta = beta.reshape(2, -1, num_factors, 3)
        state = x.new_zeros(2, 3, 4, 5)
        outputs = []
        for t in range(x.shape[1]):
            if grain == "own":
                step = torch.log1p(torch.exp(x[:, t] @ mixer.a_proj.weight.T + mixer.dt_bias))
                state = state * torch.exp(-mixer.A_log.exp() * step)[..., None, None]
            for j in range(num_factors):
                error = v[:, t, j] - (state * k[:, t, j, :, :, None]).sum(-2)
                key = beta[:, t, j, :, None] * k[:, t, j]
                state = state + key[..., None] * error[:, :, None]
            outputs.append((state * q[:, t, :, :, None]).sum(-2))
        o = torch.stack(outputs, 1)
        o = o / (o.square().mean(-1, keepdim=True) + 1e-5).sqrt() * mixer.o_norm.weight
        gate = F.silu(x @ mixer.g_proj.weight.T)
        return (o.flatten(-2) * gate) @ mixer.o_proj.weight.T

    mixer = draw(
        "gated_deltaproduct",
        num_factors=num_factors,
        decay_grain=grain,
        negative_eigenvalues=negative,
        conv_width=conv_width,
    )
    is_the_layer(mixer, slow)


def test_one_factor_is_gated_deltanet(draw: Draw, unbroken: Callable[[int, int], Stream]) -> None:
    product, gdn = draw("gated_deltaproduct", num_factors=1), draw("gdn")
    x = torch.randn(2, 9, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    gdn.load_state_dict(product.state_dict())
    ours, theirs = product.prepare(x, unbroken(2, 9)), gdn.prepare(x, unbroken(2, 9))
    for name in ("q", "k", "v", "log_decay", "beta"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name))


OPTIONS = MixerOptions(width=40, num_heads=2, head_dim=16, value_dim=24, num_kv_heads=2)
FLAS = {
    "two": ({}, {}),
    "three": ({"num_householder": 3}, {"num_factors": 3}),
    "no forget gate": ({"use_forget_gate": False}, {"decay_grain": "none"}),
    "no convolution": ({"use_short_conv": False}, {"conv_width": 0}),
    "positive": ({"allow_neg_eigval": False}, {"negative_eigenvalues": False}),
}


@pytest.mark.conforms("FLA layer", mixer="gated_deltaproduct", backend="auto")
@pytest.mark.interpreter
@pytest.mark.filterwarnings("ignore")  # of FLA and Triton, about a machine without a GPU
@pytest.mark.parametrize("name", FLAS)
def test_layer_is_flas(fla: ModuleType, name: str) -> None:
    """Weights load both ways; float32 outputs from its recurrent kernel are equal."""
    mixer, layer = build(name)
    x = torch.randn(2, 37, 40, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        theirs = layer.eval()(x)[0]
        ours = forward(mixer, x)
    assert theirs.abs().max() > 0.1
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@pytest.mark.conforms("FLA layer", mixer="gated_deltaproduct", backend="auto")
@pytest.mark.interpreter
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FLAS)
def test_gradients_are_flas(fla: ModuleType, name: str) -> None:
    """Of its chunked kernel, which refuses float32: float16, so against 1e-3 of rounding."""
    mixer, layer = build(name)
    x = torch.randn(2, 70, 40, generator=torch.Generator().manual_seed(5))
    weight = torch.randn(x.shape, generator=torch.Generator().manual_seed(6))
    results = []
    for module, run in ((layer.half().train(), lambda z: layer(z)[0]), (mixer, None)):
        z = x.half() if run else x.half().float()
        z.requires_grad_()
        y = run(z) if run else forward(mixer, z)
        inputs = {"input": z, **dict(module.named_parameters())}
        found = torch.autograd.grad((y.float() * weight).sum(), list(inputs.values()))
        results.append({"output": y, **dict(zip(inputs, found, strict=True))})
    for parameter, expected in results[1].items():
        error = (results[0][parameter].float() - expected).abs().max() / expected.abs().max()
        assert error < 1e-2, f"{parameter}: {error:.1e}"


def build(name: str) -> tuple[LinearMixer, torch.nn.Module]:
    """Our mixer and FLA's layer with the same random weights, all of them float16 numbers."""
    from fla.layers import GatedDeltaProduct

    theirs, ours = FLAS[name]
    mixer = MIXERS["gated_deltaproduct"](replace(OPTIONS, **{"negative_eigenvalues": True} | ours))
    assert isinstance(mixer, LinearMixer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # FLA advises against no convolution
        layer = GatedDeltaProduct(hidden_size=40, head_dim=16, num_heads=2, expand_v=1.5, **theirs)
    generator = torch.Generator().manual_seed(4)
    mixer.initialise(generator, 0.2)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
            parameter.copy_(parameter.half())
    layer.load_state_dict(mixer.state_dict())
    mixer.load_state_dict(layer.state_dict())
    return mixer, layer


def forward(mixer: LinearMixer, x: Tensor) -> Tensor:
    """The whole layer on one unbroken stream."""
    stream = Stream(torch.arange(x.shape[1]).expand(x.shape[:2]))
    return mixer.output(run_factors(mixer.prepare(x, stream))[0], x)
