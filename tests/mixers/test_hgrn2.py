"""HGRN2 against its definition, token by token."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.mixers import HGRN2, LinearMixer, Stream

Draw = Callable[..., LinearMixer]


@pytest.mark.conforms("values", "gradients", mixer="hgrn2", backend=("chunked", "reference"))
@pytest.mark.parametrize("conv_width", [0, 1, 4])
def test_layer_is_the_definition(
    draw: Draw,
    convolve: Callable[[Tensor, Tensor], Tensor],
    is_the_layer: Callable[..., None],
    conv_width: int,
) -> None:
    def slow(mixer: HGRN2, x: Tensor) -> Tensor:
        heads = {}
        for letter in "qfi":
            z = x @ getattr(mixer, f"{letter}_proj").weight.T
            if conv_width:
                z = convolve(z, getattr(mixer, f"{letter}_conv1d").weight)
            heads[letter] = z.reshape(2, 19, 3, -1)
        alpha = 1 / (1 + torch.exp(-heads["f"]))
        state = torch.zeros(2, 3, 4, 5, dtype=torch.float64)
        out = []
        for t in range(19):
            forget = alpha[:, t, :, :, None]
            state = forget * state + (1 - forget) * heads["i"][:, t, :, None, :]
            o = (F.silu(heads["q"][:, t, :, :, None]) * state).sum(2) / 2  # 4 ** -0.5
            o = o.reshape(2, 15)  # the norm runs over all heads together
            o = o / (o.square().mean(-1, keepdim=True) + 1e-5).sqrt()
            out.append(o * mixer.g_norm.weight)
        return torch.stack(out, 1) @ mixer.o_proj.weight.T

    is_the_layer(draw("hgrn2", conv_width=conv_width), slow)


def test_a_nearly_open_gate_keeps_its_key(
    draw: Draw, unbroken: Callable[[int, int], Stream]
) -> None:
    """`1 - alpha` in float32 at alpha = 1 - 1e-9, where a difference would be 0."""
    mixer = draw("hgrn2", conv_width=0).float()
    with torch.no_grad():
        mixer.f_proj.weight.zero_()
        mixer.f_proj.weight[:, 0] = 20.72326584  # log(1e9)
    x = torch.zeros(1, 2, 12)
    x[..., 0] = 1.0
    factors = mixer.prepare(x, unbroken(1, 2))
    torch.testing.assert_close(factors.k, torch.full_like(factors.k, 1e-9), atol=0, rtol=1e-4)
    torch.testing.assert_close(
        factors.log_decay, torch.full_like(factors.k, -1e-9), atol=0, rtol=1e-4
    )


def test_state_is_an_average_of_values(draw: Draw, unbroken: Callable[[int, int], Stream]) -> None:
    """With one value at every token a state row is `1 - prod(alpha)` of it, and never more."""
    mixer = draw("hgrn2", conv_width=0)
    x = torch.randn(1, 9, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    factors = mixer.prepare(x, unbroken(1, 9))
    state = torch.zeros_like(factors.k[:, 0, 0])
    for t in range(9):
        state = factors.log_decay[:, t, 0].exp() * state + factors.k[:, t, 0]
    torch.testing.assert_close(state, 1 - factors.log_decay.sum((1, 2)).exp())
