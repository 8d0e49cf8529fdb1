"""A step of the delta rule against the mixer's own factors, op and output in float64.

In Triton's interpreter on any machine, and on a GPU where there is one.
"""

import pytest
import torch
from torch import Tensor, nn

from lt2theory.mixers import MIXERS, MixerOptions, Slot, Stream
from lt2theory.ops import run_factors

DEVICES = [
    pytest.param("cpu", marks=pytest.mark.interpreter),
    pytest.param("cuda", marks=pytest.mark.gpu),
]


def draw(*size: int, seed: int, device: str, dtype: torch.dtype = torch.float32) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*size, generator=rng).to(device, dtype)


def error(found: Tensor, wanted: Tensor) -> float:
    assert found.isfinite().all()
    return float((found.double() - wanted.double()).norm() / wanted.double().norm())


def step_by_kernel(
    mixer: nn.Module, x: Tensor, buffers: dict[str, Tensor], options: MixerOptions
) -> Tensor:
    """One token through the kernel and the output projection."""
    from lt2theory.ops.fused.triton_delta_step import delta_step

    gated = hasattr(mixer, "g_proj")
    names = ["q", "k", "v", "g", "b", "a"] if gated else ["q", "k", "v", "b"]
    weight = torch.cat([mixer.get_submodule(f"{name}_proj").weight for name in names])
    taps = torch.ones(1, buffers["history"].shape[-1], device=x.device)
    if options.conv_width:
        convs = [mixer.get_submodule(f"{name}_conv1d").weight[:, 0] for name in "qkv"]
        taps = torch.cat(convs).T.contiguous()
    out = torch.full_like(buffers["raw"], torch.nan)
    delta_step(
        (x @ weight.T).contiguous(),
        buffers["history"],
        taps,
        buffers["state"],
        mixer.o_norm.weight,
        buffers["raw"].fill_(torch.nan),
        buffers["arrived"],
        out,
        decay=(mixer.A_log, mixer.dt_bias) if gated else None,
        gated=gated,
        negative_eigenvalues=options.negative_eigenvalues,
        eps=options.norm_eps,
    )
    return out @ mixer.o_proj.weight.T


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["gdn", "deltanet"])
@pytest.mark.parametrize(("conv_width", "negative"), [(4, True), (2, False), (0, False)])
@pytest.mark.parametrize(("head_dim", "value_dim"), [(6, 100), (32, 16), (200, 130)])
@torch.no_grad()
def test_a_step_is_the_mixers(
    device: str, name: str, conv_width: int, negative: bool, head_dim: int, value_dim: int
) -> None:
    options = MixerOptions(
        width=40,
        num_heads=2,
        head_dim=head_dim,
        value_dim=value_dim,
        num_kv_heads=2,
        conv_width=conv_width,
        negative_eigenvalues=negative,
    )
    mixer = MIXERS[name](options)
    mixer.initialise(torch.Generator().manual_seed(1), 0.3)
    exact = MIXERS[name](options).double()
    exact.load_state_dict(mixer.state_dict())
    mixer, exact = mixer.to(device), exact.to(device)
    x = draw(3, 6, 40, seed=4, device=device)
    channels = 2 * (2 * head_dim + value_dim)
    shapes = {
        "history": (3, max(conv_width - 1, 0), channels),
        "state": (3, 2, head_dim, value_dim),
        "raw": (3, 2 * value_dim),
    }
    buffers = {key: torch.zeros(shape, device=device) for key, shape in shapes.items()}
    buffers["arrived"] = torch.zeros(3, 2, dtype=torch.int32, device=device)
    slot = Slot()
    for t in range(x.shape[1]):
        token = x[:, t : t + 1].double()
        stream = Stream(torch.full((3, 1), t, device=device))
        factors = exact.prepare(token, stream, slot)
        o, slot.state = run_factors(factors, initial_state=slot.state)
        wanted = exact.output(o, token)[:, 0]
        found = step_by_kernel(mixer, x[:, t], buffers, options)
        assert error(found, wanted) < 5e-6
        assert error(buffers["state"], slot.state) < 5e-6
        assert not buffers["arrived"].any()
