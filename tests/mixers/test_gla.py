"""Gated linear attention against its definition, token by token."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.mixers import GatedLinearAttention, LinearMixer, MixerOptions, Stream

Draw = Callable[..., LinearMixer]


@pytest.mark.conforms("values", "gradients", mixer="gla", backend=("chunked", "reference"))
@pytest.mark.parametrize("conv_width", [0, 1, 4])
def test_layer_is_the_definition(
    draw: Draw,
    convolve: Callable[[Tensor, Tensor], Tensor],
    is_the_layer: Callable[..., None],
    conv_width: int,
) -> None:
    def slow(mixer: GatedLinearAttention, x: Tensor) -> Tensor:
        heads = {}
        for letter in "qkv":
            z = x @ getattr(mixer, f"{letter}_proj").weight.T
            if conv_width:
                z = F.silu(convolve(z, getattr(mixer, f"{letter}_conv1d").weight))
            heads[letter] = z.reshape(2, 19, 3, -1)
        raw = x @ mixer.gk_proj[0].weight.T @ mixer.gk_proj[1].weight.T + mixer.gk_proj[1].bias
        alpha = (1 / (1 + torch.exp(-raw))).pow(1 / 16).reshape(2, 19, 3, 4)
        gate = F.silu(x @ mixer.g_proj.weight.T).reshape(2, 19, 3, 5)
        state = torch.zeros(2, 3, 4, 5, dtype=torch.float64)
        out = []
        for t in range(19):
            write = heads["k"][:, t, :, :, None] * heads["v"][:, t, :, None, :]
            state = alpha[:, t, :, :, None] * state + write
            o = (heads["q"][:, t, :, :, None] * state).sum(2) / 2  # 4 ** -0.5
            o = o / (o.square().mean(-1, keepdim=True) + 1e-5).sqrt()
            out.append((o * mixer.g_norm_swish_gate.weight * gate[:, t]).reshape(2, 15))
        return torch.stack(out, 1) @ mixer.o_proj.weight.T

    is_the_layer(draw("gla", conv_width=conv_width), slow)


def test_gates_of_a_half_precision_model_are_not_rounded(
    draw: Draw, unbroken: Callable[[int, int], Stream]
) -> None:
    mixer = draw("gla").bfloat16()
    with torch.no_grad():
        mixer.gk_proj[1].weight.zero_()
        mixer.gk_proj[1].bias.fill_(1.0)
    log_decay = mixer.prepare(torch.ones(1, 3, 12).bfloat16(), unbroken(1, 3)).log_decay
    assert log_decay.dtype == torch.float32
    # log(sigmoid(1)) / 16; in bfloat16 it is off by up to 4e-5
    expected = torch.full_like(log_decay, -0.01957885)
    torch.testing.assert_close(log_decay, expected, atol=1e-8, rtol=0)


def test_a_fresh_layer_forgets_little(unbroken: Callable[[int, int], Stream]) -> None:
    """The bias starts at 0: alpha = 0.5 ** (1/16) where x says nothing."""
    mixer = GatedLinearAttention(MixerOptions(12, 3, 4, 5, 3))
    mixer.initialise(torch.Generator().manual_seed(0), 0.02)
    alpha = mixer.prepare(torch.zeros(1, 2, 12), unbroken(1, 2)).log_decay.exp()
    torch.testing.assert_close(alpha, torch.full_like(alpha, 0.5 ** (1 / 16)))
