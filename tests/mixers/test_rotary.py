"""Rotary positions: stretched wavelengths, linear mixers that rotate, and what softmax adds."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from lt2theory.mixers import MIXERS, LinearMixer, MixerOptions, SoftmaxAttention, Stream
from lt2theory.mixers.options import RopeScaling
from lt2theory.mixers.rotary import rotate, stretched
from lt2theory.ops import run_attention, run_factors, run_normalised
from lt2theory.ops.factors import Factors

LINEAR = sorted(name for name, kind in MIXERS.items() if issubclass(kind, LinearMixer))
Draw = Callable[..., LinearMixer]


def turned_slowly(x: Tensor, position: int, base: float, slow_down: Callable[[float], float]):
    """One vector, one pair at a time."""
    half = len(x) // 2
    y = x.clone()
    for i in range(half):
        angle = position * slow_down(base ** (-i / half))
        y[i] = x[i] * math.cos(angle) - x[i + half] * math.sin(angle)
        y[i + half] = x[i] * math.sin(angle) + x[i + half] * math.cos(angle)
    return y


def llama3_slowly(turn: float) -> float:
    """Three cases, as the weights of Llama 3.1 were published with."""
    wavelength = 2 * math.pi / turn
    if wavelength > 32 / 1.5:
        return turn / 6.0
    if wavelength < 32 / 3.0:
        return turn
    smooth = (32 / wavelength - 1.5) / (3.0 - 1.5)
    return (1 - smooth) * turn / 6.0 + smooth * turn


@pytest.mark.parametrize(
    ("scaling", "slow_down"),
    [
        (None, lambda turn: turn),
        (RopeScaling("linear", 3.0), lambda turn: turn / 3.0),
        (RopeScaling("llama3", 6.0, 1.5, 3.0, 32), llama3_slowly),
    ],
)
def test_rotation_is_the_formula(scaling: RopeScaling | None, slow_down: Callable) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 7, 3, 20, generator=generator, dtype=torch.float64)
    positions = torch.arange(7).expand(2, 7) * 5
    y = rotate(x, positions, 500.0, scaling)
    for t in range(7):
        slow = turned_slowly(x[1, t, 2], 5 * t, 500.0, slow_down)
        torch.testing.assert_close(y[1, t, 2], slow, rtol=1e-12, atol=1e-12)


def test_llama3_keeps_fast_pairs_and_divides_slow_ones() -> None:
    turns = torch.tensor([1.0, 2 * math.pi / 16, 1e-4], dtype=torch.float64)
    new = stretched(turns, RopeScaling("llama3", 8.0, 1.0, 4.0, 32))
    assert new[0] == turns[0]
    assert turns[1] / 8 < new[1] < turns[1]
    assert new[2] == turns[2] / 8


def run(factors: Factors) -> Tensor:
    run_any = run_factors if factors.log_write is None else run_normalised
    return run_any(factors, backend="reference")[0]


@pytest.mark.parametrize("name", LINEAR)
def test_every_linear_mixer_rotates_where_it_is_asked_to(name: str, draw: Draw) -> None:
    stream = Stream(torch.arange(9).expand(2, 9))
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(2, 9, 12, generator=generator, dtype=torch.float64)
    mixer = draw(name, rope_base=50.0, linear_rotation="on")
    on = mixer.prepare(x, stream)
    mixer.options = replace(mixer.options, linear_rotation="off")
    off = mixer.prepare(x, stream)
    assert (on.v is off.v) or torch.equal(on.v, off.v)
    for t in range(9):
        slow = turned_slowly(off.q[1, t, 2], t, 50.0, lambda turn: turn)
        torch.testing.assert_close(on.q[1, t, 2], slow, rtol=1e-12, atol=1e-12)
        slow = turned_slowly(off.k[0, t, -1, 1], t, 50.0, lambda turn: turn)
        torch.testing.assert_close(on.k[0, t, -1, 1], slow, rtol=1e-12, atol=1e-12)
    mixer.options = replace(mixer.options, linear_rotation="own")
    own = mixer.prepare(x, stream)
    assert torch.equal(own.q, on.q if name == "retnet" else off.q)


@pytest.mark.parametrize("name", ["linear_attention", "retnet", "deltanet", "gdn", "mlstm"])
def test_rotation_sees_distances_only(name: str, draw: Draw) -> None:
    """With at most one decay a head; a decay a channel treats the two of a pair apart."""
    mixer = draw(name, linear_rotation="on")
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(2, 9, 12, generator=generator, dtype=torch.float64)
    positions = torch.arange(9).expand(2, 9)
    near, far = (run(mixer.prepare(x, Stream(positions + shift))) for shift in (0, 13))
    torch.testing.assert_close(near, far, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("qk_norm", [False, True])
def test_softmax_with_biases_and_norms_is_the_formula(qk_norm: bool) -> None:
    options = MixerOptions(
        width=12,
        num_heads=4,
        head_dim=6,
        value_dim=5,
        num_kv_heads=2,
        rope_base=100.0,
        qkv_bias=True,
        output_bias=True,
        qk_norm=qk_norm,
    )
    mixer = SoftmaxAttention(options).double()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    x = torch.randn(1, 7, 12, generator=generator, dtype=torch.float64, requires_grad=True)
    inputs = mixer.prepare(x, Stream(torch.arange(7)[None]))
    heads = []
    for h in range(4):
        part = slice(6 * (h // 2), 6 * (h // 2) + 6)
        q = (x[0] @ mixer.q_proj.weight.T + mixer.q_proj.bias)[:, 6 * h : 6 * h + 6]
        k = (x[0] @ mixer.k_proj.weight.T + mixer.k_proj.bias)[:, part]
        v = (x[0] @ mixer.v_proj.weight.T + mixer.v_proj.bias)[:, 5 * (h // 2) : 5 * (h // 2) + 5]
        if qk_norm:
            q = q / (q.square().mean(-1, keepdim=True) + 1e-5).sqrt() * mixer.q_norm.weight
            k = k / (k.square().mean(-1, keepdim=True) + 1e-5).sqrt() * mixer.k_norm.weight
        q, k = (
            torch.stack([turned_slowly(z[t], t, 100.0, lambda turn: turn) for t in range(7)])
            for z in (q, k)
        )
        scores = (q @ k.T / 6**0.5).masked_fill(~torch.ones(7, 7).tril().bool(), -torch.inf)
        heads.append(scores.softmax(-1) @ v)
    slow = torch.cat(heads, -1) @ mixer.o_proj.weight.T + mixer.o_proj.bias
    fast = mixer.output(run_attention(inputs), x)[0]
    torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-10)
    weight = torch.randn(slow.shape, generator=generator, dtype=torch.float64)
    leaves = [x, *mixer.parameters()]
    for one, other in zip(
        torch.autograd.grad((fast * weight).sum(), leaves),
        torch.autograd.grad((slow * weight).sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-9)
