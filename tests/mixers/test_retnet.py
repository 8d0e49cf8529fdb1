"""RetNet against its definition, token by token."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.mixers import LinearMixer, RetNet
from lt2theory.mixers.stream import Stream
from lt2theory.models import LoopedConfig

Draw = Callable[..., LinearMixer]
Convolve = Callable[[Tensor, Tensor], Tensor]


def rotated(z: Tensor, t: int, base: float) -> Tensor:
    """Coordinates i and i + k/2 turned by `t * base ** (-2 i / k)`, one pair at a time."""
    half = z.shape[-1] // 2
    turned = [None] * (2 * half)
    for i in range(half):
        angle = t * base ** (-i / half)
        turned[i] = z[..., i] * math.cos(angle) - z[..., i + half] * math.sin(angle)
        turned[i + half] = z[..., i] * math.sin(angle) + z[..., i + half] * math.cos(angle)
    return torch.stack(turned, -1)


@pytest.mark.conforms("values", "gradients", mixer="retnet", backend=("chunked", "reference"))
@pytest.mark.parametrize("conv_width", [0, 1, 4])
@pytest.mark.parametrize("rope_base", [None, 50.0])
def test_layer_is_the_definition(
    draw: Draw,
    convolve: Convolve,
    is_the_layer: Callable[..., None],
    conv_width: int,
    rope_base: float | None,
) -> None:
    def slow(mixer: RetNet, x: Tensor) -> Tensor:
        heads = {}
        for letter in "qkv":
            z = x @ getattr(mixer, f"{letter}_proj").weight.T
            if conv_width:
                z = F.silu(convolve(z, getattr(mixer, f"{letter}_conv1d").weight))
            heads[letter] = z.reshape(2, 19, 3, -1)
        gate = F.silu(x @ mixer.g_proj.weight.T).reshape(2, 19, 3, 5)
        out = []
        for h in range(3):
            gamma = 1 - 2.0 ** (-5 - h)
            state = torch.zeros(2, 4, 5, dtype=torch.float64)
            for t in range(19):
                k = rotated(heads["k"][:, t, h], t, rope_base or 10000.0)
                q = rotated(heads["q"][:, t, h], t, rope_base or 10000.0)
                state = gamma * state + k[:, :, None] * heads["v"][:, t, h, None, :]
                o = (q[:, :, None] * state).sum(1) / 2  # 4 ** -0.5
                o = o / (o.square().mean(-1, keepdim=True) + 1e-5).sqrt()
                out.append(o * mixer.g_norm_swish_gate.weight * gate[:, t, h])
        y = torch.stack(out, 1).reshape(2, 3, 19, 5).transpose(1, 2).reshape(2, 19, 15)
        return y @ mixer.o_proj.weight.T

    is_the_layer(draw("retnet", conv_width=conv_width, rope_base=rope_base), slow)


def test_outputs_depend_on_distances_alone(draw: Draw) -> None:
    """Shifting all positions of a stream changes no product of a query and a key."""
    mixer = draw("retnet")
    x = torch.randn(2, 7, 12, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    index = torch.arange(7).expand(2, 7)
    here, there = (mixer.prepare(x, Stream(index + shift)) for shift in (0, 31))
    products = [torch.einsum("bthk,bmhk->bhtm", f.q, f.k[:, :, 0]) for f in (here, there)]
    torch.testing.assert_close(*products, atol=1e-12, rtol=1e-12)
    assert not torch.allclose(here.k, there.k)


def test_decays_of_many_heads_are_not_rounded_to_one(draw: Draw) -> None:
    mixer = draw("retnet", num_heads=40).float()
    x = torch.zeros(1, 2, 12)
    log_decay = mixer.prepare(x, Stream(torch.arange(2)[None])).log_decay
    exact = [math.log1p(-(2.0 ** (-5 - h))) for h in range(40)]
    torch.testing.assert_close(log_decay[0, 1, 0], torch.tensor(exact), atol=0, rtol=1e-6)


def test_odd_heads_are_refused(draw: Draw) -> None:
    with pytest.raises(ValueError, match="head_dim: 5 must be even for retnet"):
        draw("retnet", head_dim=5)
    with pytest.raises(ValueError, match="head_dim: 5 must be even for retnet"):
        LoopedConfig(pattern="gdn,retnet", head_dim=5)
