"""DeepSeek sparse attention's mixer against its formulae."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from lt2theory.mixers import MIXERS, MixerOptions, Stream
from lt2theory.mixers.dsa import DeepSeekSparseAttention
from lt2theory.mixers.softmax import SoftmaxAttention
from lt2theory.ops.factors import IndexedInputs

OPTIONS = MixerOptions(
    width=12,
    num_heads=4,
    head_dim=4,
    value_dim=6,
    num_kv_heads=2,
    top_k=3,
    index_heads=3,
    index_dim=8,
)


def make(**changes: object) -> DeepSeekSparseAttention:
    """A float64 mixer with every parameter away from its start."""
    mixer = DeepSeekSparseAttention(replace(OPTIONS, **changes)).double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in mixer.parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(0.3 * drawn)
    return mixer


def stream(length: int) -> Stream:
    return Stream(torch.arange(length).expand(2, length))


@pytest.fixture
def x() -> Tensor:
    generator = torch.Generator().manual_seed(5)
    return torch.randn(2, 9, 12, generator=generator, dtype=torch.float64)


def turned(z: Tensor, base: float) -> Tensor:
    """Rotary positions by complex numbers, time on axis 1; halves are real and imaginary parts."""
    half = z.shape[-1] // 2
    angles = torch.arange(9.0).double()[:, None] * base ** -(torch.arange(half).double() / half)
    pairs = torch.complex(z[..., :half], z[..., half:])
    shape = (1, 9, *([1] * (z.dim() - 3)), half)
    pairs = pairs * torch.polar(torch.ones_like(angles), angles).reshape(shape)
    return torch.cat([pairs.real, pairs.imag], -1)


@pytest.mark.parametrize("rope_base", [None, 100.0])
def test_the_indexers_inputs(x: Tensor, rope_base: float | None) -> None:
    mixer = make(rope_base=rope_base)
    inputs = mixer.prepare(x, stream(9))
    assert isinstance(inputs, IndexedInputs)
    assert inputs.top_k == 3
    q = (x @ mixer.index_q_proj.weight.T).reshape(2, 9, 3, 8)
    k = x @ mixer.index_k_proj.weight.T
    centred = k - k.mean(-1, keepdim=True)
    k = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    k = k * mixer.index_k_norm.weight + mixer.index_k_norm.bias
    if rope_base is not None:
        q, k = turned(q, rope_base), turned(k, rope_base)
    torch.testing.assert_close(inputs.index_q, q)
    torch.testing.assert_close(inputs.index_k, k)
    weight = x @ mixer.index_weight_proj.weight.T / (3 * 8) ** 0.5
    torch.testing.assert_close(inputs.index_weight, weight)


@pytest.mark.parametrize("output_gate", [False, True])
def test_the_attention_is_the_softmax_mixers(x: Tensor, output_gate: bool) -> None:
    mixer = make(output_gate=output_gate, rope_base=100.0)
    plain = SoftmaxAttention(mixer.options).double()
    missing = plain.load_state_dict(mixer.state_dict(), strict=False)
    assert missing.missing_keys == []
    assert all(name.startswith("index_") for name in missing.unexpected_keys)
    ours, theirs = mixer.prepare(x, stream(9)), plain.prepare(x, stream(9))
    for name in ("q", "k", "v"):
        assert torch.equal(getattr(ours, name), getattr(theirs, name))
    o = torch.randn(2, 9, 4, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert torch.equal(mixer.output(o, x), plain.output(o, x))


def test_the_indexer_reads_its_input_as_a_constant(x: Tensor) -> None:
    x.requires_grad_()
    mixer = make()
    inputs = mixer.prepare(x, stream(9))
    total = inputs.index_q.sum() + inputs.index_k.square().sum() + inputs.index_weight.sum()
    names, parameters = zip(*mixer.named_parameters(), strict=True)
    grads = torch.autograd.grad(total, [x, *parameters], allow_unused=True)
    assert grads[0] is None
    for name, grad in zip(names, grads[1:], strict=True):
        assert (grad is not None) == name.startswith("index_"), name


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_keys_are_normalised_in_float32(x: Tensor, dtype: torch.dtype) -> None:
    mixer = make().to(dtype)
    inputs = mixer.prepare(x.to(dtype), stream(9))
    assert {inputs.index_q.dtype, inputs.index_k.dtype, inputs.index_weight.dtype} == {dtype}
    k = mixer.index_k_proj(x.to(dtype)).float()
    norm = mixer.index_k_norm
    wide = torch.nn.functional.layer_norm(k, (8,), norm.weight.float(), norm.bias.float(), 1e-5)
    assert torch.equal(inputs.index_k, wide.to(dtype))


def test_start() -> None:
    mixer = make(output_gate=True)
    mixer.initialise(torch.Generator().manual_seed(0), 0.5)
    assert torch.equal(mixer.index_k_norm.weight, torch.ones(8).double())
    assert torch.equal(mixer.index_k_norm.bias, torch.zeros(8).double())
    assert mixer.index_weight_proj.weight.std() > 0.3
    assert MIXERS["dsa"] is DeepSeekSparseAttention
