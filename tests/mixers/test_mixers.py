"""Every mixer against a readable formula, and its parameter names against FLA's layers."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.mixers import MIXERS, MixerOptions, Slot, Stream
from lt2theory.ops.factors import AttentionInputs, Factors

OPTIONS = MixerOptions(width=12, num_heads=3, head_dim=4, value_dim=6, num_kv_heads=3, window=5)
LINEAR_DELTA = ["deltanet", "gdn", "kda"]


def make(name: str, **changes: object) -> torch.nn.Module:
    mixer = MIXERS[name](replace(OPTIONS, **changes)).double()
    generator = torch.Generator().manual_seed(3)
    mixer.initialise(generator, 0.5)
    return mixer


def stream(batch: int, length: int) -> Stream:
    return Stream(torch.arange(length).expand(batch, length))


@pytest.fixture
def x() -> Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.randn(2, 9, 12, generator=generator, dtype=torch.float64)


def convolved(weight: Tensor, z: Tensor) -> Tensor:
    padded = F.pad(z.transpose(1, 2), (weight.shape[-1] - 1, 0))
    return F.conv1d(padded, weight, groups=weight.shape[0]).transpose(1, 2)


@pytest.mark.parametrize("name", LINEAR_DELTA)
@pytest.mark.parametrize("conv_width", [0, 1, 4])
@pytest.mark.parametrize("negative", [False, True])
def test_delta_family_factors(x: Tensor, name: str, conv_width: int, negative: bool) -> None:
    mixer = make(name, conv_width=conv_width, negative_eigenvalues=negative)
    factors = mixer.prepare(x, stream(2, 9))
    assert isinstance(factors, Factors)
    for letter, got, dim in (("q", factors.q, 4), ("k", factors.k[:, :, 0], 4)):
        z = getattr(mixer, f"{letter}_proj")(x)
        if conv_width:
            z = convolved(getattr(mixer, f"{letter}_conv1d").weight, z)
        z = F.silu(z).reshape(2, 9, 3, dim)
        expected = z / (z.square().sum(-1, keepdim=True) + 1e-6).sqrt()
        torch.testing.assert_close(got, expected, atol=1e-12, rtol=1e-12)
    z = mixer.v_proj(x)
    z = F.silu(convolved(mixer.v_conv1d.weight, z) if conv_width else z)
    torch.testing.assert_close(factors.v[:, :, 0], z.reshape(2, 9, 3, 6), atol=1e-12, rtol=1e-12)
    beta = (1 + negative) / (1 + torch.exp(-mixer.b_proj(x)))
    torch.testing.assert_close(factors.beta[:, :, 0], beta, atol=1e-12, rtol=1e-12)
    assert factors.write is None
    assert factors.scale is None
    assert factors.order == "decay_first"


def test_decays(x: Tensor) -> None:
    assert make("deltanet").prepare(x, stream(2, 9)).log_decay is None
    gdn = make("gdn")
    rate = torch.log(1 + torch.exp(gdn.a_proj(x) + gdn.dt_bias)) * gdn.A_log.exp()
    torch.testing.assert_close(gdn.prepare(x, stream(2, 9)).log_decay[:, :, 0], -rate)
    kda = make("kda")
    raw = (x @ kda.f_proj[0].weight.T @ kda.f_proj[1].weight.T + kda.dt_bias).reshape(2, 9, 3, 4)
    rate = torch.log(1 + torch.exp(raw)) * kda.A_log.exp()[:, None]
    torch.testing.assert_close(kda.prepare(x, stream(2, 9)).log_decay[:, :, 0], -rate)


def test_linear_attention_factors(x: Tensor) -> None:
    mixer = make("linear_attention")
    factors = mixer.prepare(x, stream(2, 9))
    k = mixer.k_proj(x).reshape(2, 9, 3, 4)
    first, second = mixer.feature_map_k.layer1, mixer.feature_map_k.layer2
    expected = (k @ first.weight.T + first.bias) * (k @ second.weight.T + second.bias)
    torch.testing.assert_close(factors.k[:, :, 0], expected)
    assert factors.beta is None
    assert factors.log_decay is None
    assert factors.write is None


@pytest.mark.parametrize("name", ["full", "window"])
def test_softmax_family_inputs(x: Tensor, name: str) -> None:
    mixer = make(name, num_kv_heads=1, rope_base=100.0)
    inputs = mixer.prepare(x, stream(2, 9))
    assert isinstance(inputs, AttentionInputs)
    assert inputs.window == (5 if name == "window" else None)
    q = mixer.q_proj(x).reshape(2, 9, 3, 4)
    pairs = torch.complex(q[..., :2], q[..., 2:])  # halves are real and imaginary parts
    angles = torch.arange(9.0).double()[:, None] * 100.0 ** -(torch.arange(2.0).double() / 2)
    turned = pairs * torch.polar(torch.ones_like(angles), angles)[:, None]
    torch.testing.assert_close(inputs.q, torch.cat([turned.real, turned.imag], -1))
    assert inputs.k.shape == (2, 9, 1, 4)
    assert inputs.v.shape == (2, 9, 1, 6)


def test_output_gates(x: Tensor) -> None:
    o = torch.randn(2, 9, 3, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    normed = o / (o.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    gdn, kda, full = make("gdn"), make("kda"), make("full", output_gate=True)
    gate = F.silu(gdn.g_proj(x)).reshape(2, 9, 3, 6)
    torch.testing.assert_close(
        gdn.output(o, x), (normed * gate).reshape(2, 9, 18) @ gdn.o_proj.weight.T
    )
    gate = kda.g_proj(x).sigmoid().reshape(2, 9, 3, 6)
    torch.testing.assert_close(
        kda.output(o, x), (normed * gate).reshape(2, 9, 18) @ kda.o_proj.weight.T
    )
    assert torch.equal(full.g_proj.weight, torch.zeros(18, 12).double())
    torch.testing.assert_close(full.output(o, x), 0.5 * o.reshape(2, 9, 18) @ full.o_proj.weight.T)


def test_convolution_goes_on_and_stops_at_segments(x: Tensor) -> None:
    mixer = make("deltanet")
    whole = mixer.prepare(x, stream(2, 9)).k
    slot = Slot()
    pieces = [
        mixer.prepare(x[:, a:b], stream(2, b - a), slot).k for a, b in ((0, 2), (2, 3), (3, 9))
    ]
    torch.testing.assert_close(torch.cat(pieces, 1), whole, atol=1e-12, rtol=1e-12)
    segments = torch.tensor([[0] * 4 + [1] * 5, [-1] * 4 + [0] * 5])
    cut = Stream(torch.zeros_like(segments), segments, segments[:, :0])
    alone = mixer.prepare(x[:, 4:], stream(2, 5)).k
    torch.testing.assert_close(mixer.prepare(x, cut).k[:, 4:], alone, atol=1e-12, rtol=1e-12)


_FLA_NAMES = """
import json, sys, warnings
warnings.simplefilter("ignore")
from fla.layers import *
expand = {"hidden_size": 12, "num_heads": 3, "expand_k": 1, "expand_v": 1.5}
layers = {
    "retnet": MultiScaleRetention(**expand, use_short_conv=True),
    "mamba2": Mamba2(hidden_size=12, head_dim=6, state_size=4, expand=1.5),
    "gla": GatedLinearAttention(**expand, use_short_conv=True),
    "hgrn2": HGRN2Attention(hidden_size=12, expand_ratio=4, use_short_conv=True),
    "deltanet": DeltaNet(**expand),
    "gdn": GatedDeltaNet(hidden_size=12, num_heads=3, head_dim=4, expand_v=1.5),
    "kda": KimiDeltaAttention(hidden_size=12, num_heads=3, head_dim=4, expand_v=1.5),
    "linear_attention": LinearAttention(**expand),
}
json.dump({n: {k: list(v.shape) for k, v in l.state_dict().items()} for n, l in layers.items()},
          sys.stdout)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="FLA is a Linux dependency")
def test_parameter_names_and_shapes_are_flas() -> None:
    """In a process of its own: importing FLA takes seconds and warns without a GPU."""
    done = subprocess.run(
        [sys.executable, "-c", _FLA_NAMES], capture_output=True, text=True, check=True
    )
    theirs = json.loads(done.stdout.splitlines()[-1])
    for name, shapes in theirs.items():
        # FLA's HGRN2 derives the width of its values from the model's.
        mixer = make(name, value_dim=4) if name == "hgrn2" else make(name)
        ours = {key: list(value.shape) for key, value in mixer.state_dict().items()}
        assert ours == shapes, name


@pytest.mark.parametrize("name", ["gdn", "kda"])
def test_decay_rates_of_a_half_precision_model_are_not_rounded(x: Tensor, name: str) -> None:
    mixer = make(name).bfloat16()
    with torch.no_grad():
        mixer.A_log.fill_(1.0)
        mixer.dt_bias.fill_(0.0)
        for parameter in (mixer.a_proj if name == "gdn" else mixer.f_proj).parameters():
            parameter.zero_()
    log_decay = mixer.prepare(x.bfloat16(), stream(2, 9)).log_decay
    assert log_decay.dtype == torch.float32
    # e log 2; e rounded to bfloat16 is off by 6e-4
    expected = torch.full_like(log_decay, -1.8841693)
    torch.testing.assert_close(log_decay, expected, atol=1e-6, rtol=0)


def test_feature_maps_multiply_in_float32() -> None:
    mixer = make("linear_attention").bfloat16()
    x = torch.randn(2, 9, 12, generator=torch.Generator().manual_seed(4)).bfloat16()
    for name, got in (("k", mixer.prepare(x, stream(2, 9)).k), ("q", None)):
        if got is None:
            got = mixer.prepare(x, stream(2, 9)).q.unsqueeze(2)
        feature_map = getattr(mixer, f"feature_map_{name}")
        z = getattr(mixer, f"{name}_proj")(x).unflatten(-1, (3, -1))
        expected = feature_map.layer1(z).float() * feature_map.layer2(z).float()
        assert torch.equal(got[:, :, 0], expected)


@pytest.mark.parametrize("name", LINEAR_DELTA)
def test_convolution_history_holds_no_more_than_it_says(x: Tensor, name: str) -> None:
    slot = Slot()
    make(name).prepare(x, stream(2, 9), slot)
    assert slot.conv is not None
    assert slot.conv.shape[1] == 3
    assert slot.conv.untyped_storage().nbytes() == slot.num_bytes()
