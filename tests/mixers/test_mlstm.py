"""The mLSTM layer against the paper's equations, from the residual stream to its change."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.mixers import LinearMixer, Stream
from lt2theory.ops import run_normalised

Draw = Callable[..., LinearMixer]


def by_the_paper(mixer: LinearMixer, x: Tensor) -> Tensor:
    """xLSTM, equations 19 to 27 without a stabiliser, in the layer of xLSTM 7B."""
    options = mixer.options
    cap = options.gate_soft_cap

    def heads(z: Tensor) -> Tensor:
        return z.reshape(*z.shape[:2], options.num_heads, -1)

    def gate(linear: torch.nn.Linear) -> Tensor:
        z = x @ linear.weight.T + linear.bias
        return z if cap is None else cap * torch.tanh(z / cap)

    q, k, v = (heads(x @ w.weight.T) for w in (mixer.q, mixer.k, mixer.v))
    k = k / options.head_dim**0.5
    write, forget = gate(mixer.igate_preact).exp(), torch.sigmoid(gate(mixer.fgate_preact))
    memory = x.new_zeros(x.shape[0], options.num_heads, options.value_dim, options.head_dim)
    normaliser = x.new_zeros(x.shape[0], options.num_heads, options.head_dim)
    outputs = []
    for t in range(x.shape[1]):
        f, i = forget[:, t, :, None], write[:, t, :, None]
        memory = f[..., None] * memory + i[..., None] * v[:, t, :, :, None] * k[:, t, :, None]
        normaliser = f * normaliser + i * k[:, t]
        weight = (normaliser * q[:, t]).sum(-1).abs()
        read = (memory * q[:, t, :, None]).sum(-1)
        outputs.append(read / torch.maximum(weight, torch.ones_like(weight))[..., None])
    o = torch.stack(outputs, 1)
    o = (o - o.mean(-1, keepdim=True)) / (
        o.var(-1, keepdim=True, unbiased=False) + options.norm_eps
    ).sqrt()
    o = o.flatten(-2) * mixer.multihead_norm.weight
    return (o * torch.sigmoid(x @ mixer.ogate_preact.weight.T)) @ mixer.out_proj.weight.T


@pytest.mark.conforms("values", "gradients", mixer="mlstm")
@pytest.mark.parametrize("cap", [15.0, 0.5, None])
@pytest.mark.parametrize("backend", ["chunked", "reference"])
def test_the_layer_is_the_papers(
    draw: Draw, unbroken: Callable[[int, int], Stream], cap: float | None, backend: str
) -> None:
    mixer = draw("mlstm", gate_soft_cap=cap)
    generator = torch.Generator().manual_seed(12)
    x = torch.randn(2, 19, 12, generator=generator, dtype=torch.float64).requires_grad_()
    weight = torch.randn(x.shape, generator=generator, dtype=torch.float64)
    o, _, _ = run_normalised(mixer.prepare(x, unbroken(2, 19)), backend=backend)
    inputs = [x, *mixer.parameters()]
    results = []
    for y in (mixer.output(o, x), by_the_paper(mixer, x)):
        results.append([y, *torch.autograd.grad((y * weight).sum(), inputs)])
    for got, expected in zip(*results, strict=True):
        assert expected.abs().max() > 1e-5  # small: the norm undoes most of what the gates scale
        torch.testing.assert_close(got, expected, atol=1e-12, rtol=1e-9)


def test_names_are_those_of_the_public_code(draw: Draw) -> None:
    """xlstm_large's mLSTMLayer with weight_mode="single" and no bias."""
    shapes = {name: tuple(x.shape) for name, x in draw("mlstm").state_dict().items()}
    assert shapes == {
        "q.weight": (12, 12),
        "k.weight": (12, 12),
        "v.weight": (15, 12),
        "ogate_preact.weight": (15, 12),
        "igate_preact.weight": (3, 12),
        "igate_preact.bias": (3,),
        "fgate_preact.weight": (3, 12),
        "fgate_preact.bias": (3,),
        "multihead_norm.weight": (15,),
        "out_proj.weight": (12, 15),
    }


def test_starting_gates_do_not_look_at_the_input(
    draw: Draw, unbroken: Callable[[int, int], Stream]
) -> None:
    mixer = draw("mlstm")
    mixer.initialise(torch.Generator().manual_seed(0), 0.5)
    x = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    factors = mixer.prepare(x, unbroken(2, 5))
    z = torch.tensor([3.0, 4.5, 6.0], dtype=torch.float64)
    expected = F.logsigmoid(15 * torch.tanh(z / 15))
    torch.testing.assert_close(factors.log_decay, expected.expand(2, 5, 1, 3))
    assert torch.equal(factors.log_write, factors.log_write[:1, :1].expand(2, 5, 1, 3))
    assert 0 < factors.log_write.abs().max() < 0.3


def test_gates_of_a_half_precision_model_are_float32(
    draw: Draw, unbroken: Callable[[int, int], Stream]
) -> None:
    mixer = draw("mlstm").bfloat16()
    factors = mixer.prepare(torch.ones(1, 3, 12).bfloat16(), unbroken(1, 3))
    tensors = (factors.q, factors.k, factors.v, factors.log_decay, factors.log_write)
    assert {x.dtype for x in tensors} == {torch.float32}
    raw = mixer.igate_preact(torch.ones(1, 3, 12).bfloat16()).float()
    torch.testing.assert_close(
        factors.log_write[:, :, 0], 15 * torch.tanh(raw / 15), atol=1e-6, rtol=1e-6
    )
