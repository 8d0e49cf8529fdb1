"""The native sparse attention mixer against formulas, and its parameters against FLA's layer."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from lt2theory.mixers import MixerOptions, NativeSparseAttention, Stream
from lt2theory.ops.factors import BlockSparseInputs

OPTIONS = MixerOptions(
    width=12,
    num_heads=4,
    head_dim=4,
    value_dim=6,
    num_kv_heads=2,
    window=5,
    block_size=3,
    num_blocks=2,
)


def make(**changes: object) -> NativeSparseAttention:
    mixer = NativeSparseAttention(replace(OPTIONS, **changes)).double()
    mixer.initialise(torch.Generator().manual_seed(3), 0.5)
    return mixer


@pytest.fixture
def x() -> Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.randn(2, 9, 12, generator=generator, dtype=torch.float64)


@pytest.fixture
def stream() -> Stream:
    return Stream(torch.arange(9).expand(2, 9))


def test_inputs(x: Tensor, stream: Stream) -> None:
    mixer = make(rope_base=100.0)
    inputs = mixer.prepare(x, stream)
    assert isinstance(inputs, BlockSparseInputs)
    assert (inputs.block_size, inputs.num_blocks, inputs.window) == (3, 2, 5)
    for letter, got, heads in (("q", inputs.q, 4), ("k", inputs.k, 2)):
        z = getattr(mixer, f"{letter}_proj")(x).reshape(2, 9, heads, 4)
        pairs = torch.complex(z[..., :2], z[..., 2:])  # halves are real and imaginary parts
        angles = torch.arange(9.0).double()[:, None] * 100.0 ** -(torch.arange(2.0).double() / 2)
        turned = pairs * torch.polar(torch.ones_like(angles), angles)[:, None]
        torch.testing.assert_close(got, torch.cat([turned.real, turned.imag], -1))
    torch.testing.assert_close(inputs.v, mixer.v_proj(x).reshape(2, 9, 2, 6))
    gates = 1 / (1 + torch.exp(-mixer.g_proj(x).reshape(2, 9, 4, 3)))
    torch.testing.assert_close(inputs.gates, gates)


def test_output_gate_starts_half_open_beside_the_gates_of_the_branches(
    x: Tensor, stream: Stream
) -> None:
    o = torch.randn(2, 9, 4, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    gated, plain = make(output_gate=True), make()
    torch.testing.assert_close(plain.output(o, x), o.reshape(2, 9, 24) @ plain.o_proj.weight.T)
    torch.testing.assert_close(
        gated.output(o, x), 0.5 * o.reshape(2, 9, 24) @ gated.o_proj.weight.T
    )
    assert gated.g_proj.weight.abs().min() > 0
    with torch.no_grad():
        gated.output_gate_proj.weight.normal_(generator=torch.Generator().manual_seed(2))
    gate = torch.sigmoid(gated.output_gate_proj(x))
    torch.testing.assert_close(
        gated.output(o, x), (gate * o.reshape(2, 9, 24)) @ gated.o_proj.weight.T
    )


def test_gates_are_float32_in_half_precision(x: Tensor, stream: Stream) -> None:
    inputs = make().bfloat16().prepare(x.bfloat16(), stream)
    assert inputs.gates.dtype == torch.float32
    assert inputs.q.dtype == torch.bfloat16


_FLA_NAMES = """
import json, sys, warnings
warnings.simplefilter("ignore")
from fla.layers import NativeSparseAttention
layer = NativeSparseAttention(hidden_size=12, num_heads=4, num_kv_heads=2, head_dim=4)
json.dump({k: list(v.shape) for k, v in layer.state_dict().items()}, sys.stdout)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="FLA is a Linux dependency")
def test_parameter_names_and_shapes_are_flas() -> None:
    """In a process of its own: importing FLA takes seconds and warns without a GPU."""
    done = subprocess.run(
        [sys.executable, "-c", _FLA_NAMES], capture_output=True, text=True, check=True
    )
    theirs = json.loads(done.stdout.splitlines()[-1])
    ours = {name: list(value.shape) for name, value in make(value_dim=4).state_dict().items()}
    assert ours == theirs
