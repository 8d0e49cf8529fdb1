"""Mamba2 against its definition, token by token."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from lt2theory.mixers import LinearMixer, Mamba2, MixerOptions, Slot, Stream
from lt2theory.ops import linear_recurrence, run_factors

Draw = Callable[..., LinearMixer]


@pytest.mark.conforms("values", "gradients", mixer="mamba2", backend=("chunked", "reference"))
@pytest.mark.parametrize("conv_width", [0, 1, 4])
def test_layer_is_the_definition(
    draw: Draw,
    convolve: Callable[[Tensor, Tensor], Tensor],
    is_the_layer: Callable[..., None],
    conv_width: int,
) -> None:
    def slow(mixer: Mamba2, x: Tensor) -> Tensor:
        # z [h v], x [h v], B [k], C [k], dt [h]
        z, xbc, dt = (x @ mixer.in_proj.weight.T).split([15, 15 + 4 + 4, 3], -1)
        if conv_width:
            xbc = convolve(xbc, mixer.conv1d.weight) + mixer.conv1d.bias
        values, write, read = F.silu(xbc).split([15, 4, 4], -1)
        values = values.reshape(2, 19, 3, 5)
        dt = torch.log(1 + torch.exp(dt + mixer.dt_bias))
        decay = torch.exp(-torch.exp(mixer.A_log) * dt)
        state = torch.zeros(2, 3, 4, 5, dtype=torch.float64)
        out = []
        for t in range(19):
            now = dt[:, t, :, None, None] * write[:, t, None, :, None] * values[:, t, :, None]
            state = decay[:, t, :, None, None] * state + now
            y = (read[:, t, None, :, None] * state).sum(2) + mixer.D[:, None] * values[:, t]
            y = y.reshape(2, 15) * F.silu(z[:, t])  # the gate comes before the norm
            y = y / (y.square().mean(-1, keepdim=True) + 1e-5).sqrt()
            out.append(y * mixer.norm.weight)
        return torch.stack(out, 1) @ mixer.out_proj.weight.T

    is_the_layer(draw("mamba2", conv_width=conv_width), slow)


def test_skip_is_read_past_the_state(draw: Draw, unbroken: Callable[[int, int], Stream]) -> None:
    """The op without it and the skipped values add up, also where several factors are joined."""
    mixer = draw("mamba2")
    x = torch.randn(2, 2, 7, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    earlier, later = (mixer.prepare(each, unbroken(2, 7)) for each in x)
    joined = later.after(earlier)
    arguments = {"log_decay": joined.log_decay, "write": joined.write, "scale": 1.0}
    plain = linear_recurrence(joined.q, joined.k, joined.v, **arguments)
    skipped = torch.einsum("h,bthv->bthv", mixer.D, later.v[:, :, 0])
    got, _ = run_factors(joined)
    torch.testing.assert_close(got, plain + skipped, atol=1e-12, rtol=1e-12)


def test_starting_values() -> None:
    mixer = Mamba2(MixerOptions(12, 64, 4, 5, 64))
    mixer.initialise(torch.Generator().manual_seed(0), 0.02)
    rate, step = mixer.A_log.exp(), F.softplus(mixer.dt_bias)
    assert 1 <= rate.min() < 3
    assert 14 < rate.max() <= 16
    assert 0.00099 < step.min() < 0.003
    assert 0.03 < step.max() < 0.1001
    assert torch.equal(mixer.D, torch.ones(64))
    assert 0.4 < mixer.conv1d.bias.abs().max() <= 0.5  # 4 ** -0.5, as torch's own convolution


def test_decays_of_a_half_precision_model_are_not_rounded(
    draw: Draw, unbroken: Callable[[int, int], Stream]
) -> None:
    mixer = draw("mamba2").bfloat16()
    with torch.no_grad():
        mixer.A_log.fill_(1.0)
        mixer.dt_bias.fill_(0.0)
        mixer.in_proj.weight[-3:].zero_()
    factors = mixer.prepare(torch.ones(1, 3, 12).bfloat16(), unbroken(1, 3))
    assert factors.log_decay.dtype == factors.write.dtype == factors.v.dtype == torch.float32
    step = torch.full_like(factors.write, math.log(2))
    torch.testing.assert_close(factors.write, step, atol=1e-6, rtol=0)
    torch.testing.assert_close(factors.log_decay, -math.e * step, atol=1e-6, rtol=0)


def test_convolution_history_holds_no_more_than_it_says(
    draw: Draw, unbroken: Callable[[int, int], Stream]
) -> None:
    slot = Slot()
    draw("mamba2").prepare(torch.ones(2, 9, 12, dtype=torch.float64), unbroken(2, 9), slot)
    assert slot.conv is not None
    assert slot.conv.shape == (2, 3, 15 + 4 + 4)
    assert slot.conv.untyped_storage().nbytes() == slot.num_bytes()
