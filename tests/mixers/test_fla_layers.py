"""Our layers against FLA's own: weights load both ways, outputs and gradients are equal.

FLA's kernels run in the interpreter here (tests/fla_interpreter.py), in float32. How the rounding
of our own layers adds up is seen beside it, against the same layers in float64.
"""

from copy import deepcopy
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lt2theory.mixers import MIXERS, LinearMixer, MixerOptions, Stream
from lt2theory.ops import run_factors

# Heads of 16 keys and 24 values; the product of heads and values is not the width.
OPTIONS = MixerOptions(width=40, num_heads=2, head_dim=16, value_dim=24, num_kv_heads=2)
EXPANDED = {"num_heads": 2, "expand_k": 0.8, "expand_v": 1.2}
HEADED = {"num_heads": 2, "head_dim": 16, "expand_v": 1.5}


@dataclass(frozen=True)
class Case:
    """One of our mixers and the layer of FLA that it should be.

    Attributes:
        mixer: Our name.
        layer: FLA's class.
        theirs: What its constructor takes beside `hidden_size`.
        ours: What our options change.
        length: Tokens; up to 64 of them several layers use their recurrent kernel.
        decay_rounding: Largest relative error of FLA's gradients of what makes the decays.
        trains: Whether FLA's layer has a gradient in float32.
    """

    mixer: str
    layer: str
    theirs: dict[str, Any]
    ours: dict[str, Any] = field(default_factory=dict)
    length: int = 37
    decay_rounding: float = 1e-5
    trains: bool = True


# FLA's chunked gated delta rule sums the gradient of a scalar decay from differences of large
# terms: 8e-5 away from float64 at these weights, where ours is 4e-7 away.
GDN_ROUNDING = 2e-4
DECAY = ("A_log", "dt_bias", "a_proj.weight")


BARE = {"conv_width": 0}
CASES = {
    "linear_attention": Case("linear_attention", "LinearAttention", EXPANDED),
    "retnet": Case("retnet", "MultiScaleRetention", EXPANDED, BARE, 70),
    "retnet-conv": Case("retnet", "MultiScaleRetention", {**EXPANDED, "use_short_conv": True}),
    "mamba2": Case("mamba2", "Mamba2", {"head_dim": 24, "state_size": 16, "expand": 1.2}),
    "mamba2-chunks": Case(
        "mamba2",
        "Mamba2",
        {"head_dim": 24, "state_size": 16, "expand": 1.2, "chunk_size": 16, "conv_kernel": 2},
        {"conv_width": 2},
    ),
    "gla": Case("gla", "GatedLinearAttention", EXPANDED, BARE, 70),
    "gla-conv": Case("gla", "GatedLinearAttention", {**EXPANDED, "use_short_conv": True}),
    "hgrn2": Case("hgrn2", "HGRN2Attention", {"expand_ratio": 16}, {**BARE, "value_dim": 20}, 70),
    "hgrn2-conv": Case(
        "hgrn2", "HGRN2Attention", {"expand_ratio": 16, "use_short_conv": True}, {"value_dim": 20}
    ),
    "deltanet": Case("deltanet", "DeltaNet", EXPANDED),
    "deltanet-bare": Case(
        "deltanet",
        "DeltaNet",
        {**EXPANDED, "use_short_conv": False, "allow_neg_eigval": True},
        {**BARE, "negative_eigenvalues": True},
    ),
    "gdn": Case("gdn", "GatedDeltaNet", HEADED, decay_rounding=GDN_ROUNDING),
    "gdn-bare": Case(
        "gdn",
        "GatedDeltaNet",
        {**HEADED, "use_short_conv": False, "allow_neg_eigval": True},
        {**BARE, "negative_eigenvalues": True},
        decay_rounding=GDN_ROUNDING,
    ),
    # Its chunked kernel refuses float32, so only the outputs of the recurrent one are compared.
    "gated_deltaproduct": Case(
        "gated_deltaproduct",
        "GatedDeltaProduct",
        {**HEADED, "num_householder": 3},
        {"num_factors": 3, "negative_eigenvalues": True},
        trains=False,
    ),
    "kda": Case("kda", "KimiDeltaAttention", HEADED),
    "kda-negative": Case(
        "kda",
        "KimiDeltaAttention",
        {**HEADED, "allow_neg_eigval": True},
        {"negative_eigenvalues": True},
    ),
}
NOT_IN_FLA = {"mlstm": "FLA 0.6.0 has no such layer"}


def build(fla: ModuleType, case: Case) -> tuple[LinearMixer, nn.Module]:
    """Our mixer and FLA's layer with the same random weights, none at a special value."""
    import fla.layers

    mixer = MIXERS[case.mixer](replace(OPTIONS, **case.ours))
    assert isinstance(mixer, LinearMixer)
    layer = getattr(fla.layers, case.layer)(hidden_size=OPTIONS.width, **case.theirs)
    generator = torch.Generator().manual_seed(4)
    mixer.initialise(generator, 0.2)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    layer.load_state_dict(mixer.state_dict())
    mixer.load_state_dict(layer.state_dict())
    return mixer, layer.train(case.trains)


def gradients(y: Tensor, x: Tensor, module: nn.Module, weight: Tensor) -> dict[str, Tensor]:
    """Of `sum(y * weight)`, for the input and every parameter."""
    named = {"input": x, **dict(module.named_parameters())}
    found = torch.autograd.grad((y * weight).sum(), list(named.values()))
    return dict(zip(named, found, strict=True))


def run(mixer: LinearMixer, x: Tensor) -> Tensor:
    """Our layer on one unbroken stream."""
    stream = Stream(torch.arange(x.shape[1]).expand(x.shape[:2]))
    return mixer.output(run_factors(mixer.prepare(x, stream))[0], x)


def error(got: Tensor, expected: Tensor) -> float:
    """Largest difference over the largest entry: sums over tokens round in another order."""
    return float((got - expected).abs().max() / expected.abs().max())


@pytest.mark.conforms("FLA layer", mixer=lambda given: CASES[given["name"]].mixer, backend="auto")
@pytest.mark.interpreter
@pytest.mark.filterwarnings("ignore")  # of FLA and Triton, about a machine without a GPU
@pytest.mark.parametrize("name", CASES)
def test_layer_is_flas(fla: ModuleType, name: str) -> None:
    case = CASES[name]
    mixer, layer = build(fla, case)
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(2, case.length, OPTIONS.width, generator=generator).requires_grad_()
    weight = torch.randn(x.shape, generator=generator)
    ours = run(mixer, x)
    with torch.set_grad_enabled(case.trains):
        theirs = layer(x)[0]
    assert theirs.abs().max() > 0.1
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    got = gradients(ours, x, mixer, weight)
    exact = deepcopy(mixer).double()
    wide = x.detach().double().requires_grad_()
    for parameter, expected in gradients(run(exact, wide), wide, exact, weight.double()).items():
        assert error(got[parameter].double(), expected) < 1e-5, parameter
    if case.trains:
        for parameter, expected in gradients(theirs, x, layer, weight).items():
            allowed = case.decay_rounding if parameter in DECAY else 1e-5
            assert error(got[parameter], expected) < allowed, parameter


def test_every_linear_mixer_is_compared() -> None:
    linear = {name for name, mixer in MIXERS.items() if issubclass(mixer, LinearMixer)}
    assert linear - set(NOT_IN_FLA) == {case.mixer for case in CASES.values()}
