"""The grain of the decay: the same gate with none, one, several or all decays of a head."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from lt2theory.mixers import MIXERS, LinearMixer, Stream
from lt2theory.mixers.decay import num_decays, on_first_factor, over_channels
from lt2theory.models import LoopedConfig

Draw = Callable[..., LinearMixer]
GRAINED = [name for name, kind in MIXERS.items() if getattr(kind, "own_decay", None)]
NUMBERS = {"none": 0, "head": 1, "grouped": 2, "channel": 4}  # of 4 channels in 2 groups


@pytest.fixture
def x() -> Tensor:
    return torch.randn(2, 9, 12, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def gate_of(mixer: LinearMixer) -> torch.nn.Linear:
    """The matrix whose outputs become decays."""
    for name in ("a_proj", "f_proj", "gk_proj"):
        found = getattr(mixer, name, None)
        if found is not None:
            last = found[-1] if isinstance(found, torch.nn.Sequential) else found
            assert isinstance(last, torch.nn.Linear)
            return last
    raise AssertionError("no gate")


def test_which_mixers_have_the_axis() -> None:
    assert set(GRAINED) >= {"gdn", "kda", "gated_deltaproduct", "gla"}
    assert not set(GRAINED) & {"linear_attention", "retnet", "deltanet", "mlstm", "full"}


@pytest.mark.parametrize("grain", NUMBERS)
@pytest.mark.parametrize("name", GRAINED)
def test_shapes(
    draw: Draw, unbroken: Callable[[int, int], Stream], x: Tensor, name: str, grain: str
) -> None:
    mixer = draw(name, decay_grain=grain, decay_groups=2)
    factors = mixer.prepare(x, unbroken(2, 9))
    number = NUMBERS[grain]
    if number == 0:
        assert factors.log_decay is None
        names = ("a_proj", "f_proj", "gk_proj", "A_log", "dt_bias")
        assert not any(key.split(".")[0] in names for key in mixer.state_dict())
        return
    assert gate_of(mixer).out_features == 3 * number
    shape = (2, 9, factors.num_factors, 3)
    assert factors.log_decay.shape == (shape if number == 1 else (*shape, 4))
    if number == 2:
        pairs = factors.log_decay[:, :, 0].unflatten(-1, (2, 2))
        assert torch.equal(pairs[..., 0], pairs[..., 1])
        assert not torch.allclose(pairs[..., 0, 0], pairs[..., 1, 0])


@pytest.mark.parametrize("name", GRAINED)
def test_own_is_the_definition(draw: Draw, name: str) -> None:
    grain = MIXERS[name].own_decay
    own, named = draw(name), draw(name, decay_grain=grain)
    ours, theirs = own.state_dict(), named.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)
    assert num_decays(own.options, grain) == NUMBERS[grain]


def test_gdn_without_decay_is_deltanet(
    draw: Draw, unbroken: Callable[[int, int], Stream], x: Tensor
) -> None:
    gdn, deltanet = draw("gdn", decay_grain="none"), draw("deltanet")
    shared = {k: v for k, v in gdn.state_dict().items() if k in deltanet.state_dict()}
    deltanet.load_state_dict(shared)
    ours, theirs = gdn.prepare(x, unbroken(2, 9)), deltanet.prepare(x, unbroken(2, 9))
    for field in ("q", "k", "v", "beta"):
        assert torch.equal(getattr(ours, field), getattr(theirs, field))
    assert ours.log_decay is theirs.log_decay is None


def test_gdn_a_channel_is_kda(
    draw: Draw, unbroken: Callable[[int, int], Stream], x: Tensor
) -> None:
    """Where the one matrix of GDN's gate is the product of KDA's two."""
    gdn, kda = draw("gdn", decay_grain="channel"), draw("kda")
    with torch.no_grad():
        gdn.a_proj.weight.copy_(kda.f_proj[1].weight @ kda.f_proj[0].weight)
    shared = {k: v for k, v in kda.state_dict().items() if k in gdn.state_dict()}
    gdn.load_state_dict({k: v for k, v in shared.items() if "g_proj" not in k}, strict=False)
    ours, theirs = gdn.prepare(x, unbroken(2, 9)), kda.prepare(x, unbroken(2, 9))
    for field in ("q", "k", "v", "beta", "log_decay"):
        torch.testing.assert_close(getattr(ours, field), getattr(theirs, field))


@pytest.mark.parametrize("grain", ["grouped", "channel"])
@pytest.mark.parametrize("name", GRAINED)
def test_equal_decays_are_one(
    draw: Draw, unbroken: Callable[[int, int], Stream], x: Tensor, name: str, grain: str
) -> None:
    """A finer grain whose gates coincide within a head decays as one gate a head does."""
    fine = draw(name, decay_grain=grain, decay_groups=2)
    coarse = draw(name, decay_grain="head")
    number = NUMBERS[grain]
    state = dict(fine.state_dict())
    for key, value in coarse.state_dict().items():
        if value.shape != state[key].shape:  # the gate's matrix and bias, h rows -> h n rows
            state[key] = value.repeat_interleave(number, 0)
        else:
            state[key] = value
    fine.load_state_dict(state)
    one = coarse.prepare(x, unbroken(2, 9)).log_decay
    many = fine.prepare(x, unbroken(2, 9)).log_decay
    torch.testing.assert_close(many, one.unsqueeze(-1).expand_as(many))


def test_groups_are_consecutive_channels() -> None:
    log_decay = -torch.arange(6.0).reshape(1, 1, 2, 3)
    spread = over_channels(log_decay, 6)
    assert spread[0, 0, 0].tolist() == [
        [0.0, 0.0, -1.0, -1.0, -2.0, -2.0],
        [-3.0, -3.0, -4.0, -4.0, -5.0, -5.0],
    ]
    assert over_channels(log_decay[..., :1], 6).tolist() == [[[[0.0, -3.0]]]]


def test_only_the_first_factor_decays() -> None:
    log_decay = -torch.rand(2, 3, 1, 4, 5)
    padded = on_first_factor(log_decay, 3)
    assert torch.equal(padded[:, :, :1], log_decay)
    assert torch.equal(padded[:, :, 1:], torch.zeros(2, 3, 2, 4, 5))
    assert torch.equal(on_first_factor(log_decay, 1), log_decay)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"pattern": "deltanet", "decay_grain": "none"}, "decay_grain: 'none' does nothing in"),
        ({"pattern": "full", "decay_grain": "head"}, "decay_grain: 'head' does nothing in"),
        ({"pattern": "mlstm", "decay_grain": "channel"}, "decay_grain: 'channel' does nothing"),
        ({"decay_grain": "grouped", "decay_groups": 3}, "decay_groups: 3 must divide head_dim 16"),
        ({"decay_groups": 2}, "decay_groups: 2 does nothing with decay_grain='own'"),
        ({"decay_grain": "finer"}, "decay_grain"),
    ],
)
def test_what_a_config_refuses(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LoopedConfig.model_validate(fields)


@pytest.mark.parametrize("pattern", [*GRAINED, "full,gdn"])
def test_what_a_config_allows(pattern: str) -> None:
    LoopedConfig(pattern=pattern, decay_grain="grouped", decay_groups=4)
