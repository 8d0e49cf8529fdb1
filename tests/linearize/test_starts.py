"""What a linear mixer starts with: half-lives, strengths and identities, read off its factors."""

import math
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor
from torch.nn import functional as F

from lt2theory.linearize.starts import (
    STUDENT_MIXERS,
    Start,
    set_half_lives,
    set_identities,
    spread_half_lives,
)
from lt2theory.mixers import MIXERS, LinearMixer, MixerOptions, Stream
from lt2theory.ops.factors import Factors

OPTIONS = MixerOptions(width=12, num_heads=3, head_dim=4, value_dim=4, num_kv_heads=3)


def prepared(name: str, start: Start, **changes: Any) -> tuple[LinearMixer, Factors, Tensor]:
    options = MixerOptions(**{**vars(OPTIONS), **changes})
    mixer = MIXERS[name](options).double()
    assert isinstance(mixer, LinearMixer)
    generator = torch.Generator().manual_seed(1)
    mixer.initialise(generator, 0.5)
    set_identities(mixer, start)
    set_half_lives(mixer, spread_half_lives(start, 3))
    x = torch.randn(2, 9, 12, generator=generator, dtype=torch.float64)
    return mixer, mixer.prepare(x, Stream(torch.arange(9).expand(2, 9))), x


@pytest.mark.parametrize("name", ["gdn", "kda", "gla", "mlstm"])
@pytest.mark.parametrize("changes", [{}, {"decay_grain": "grouped", "decay_groups": 2}])
def test_half_lives_are_those_given_in_tokens(name: str, changes: dict[str, Any]) -> None:
    _, factors, _ = prepared(name, Start(half_lives=(2.0, 50.0)), **changes)
    assert factors.log_decay is not None
    lives = -math.log(2.0) / factors.log_decay
    for head, expected in enumerate((2.0, 10.0, 50.0)):
        got = lives[:, :, 0, head]
        torch.testing.assert_close(got, torch.full_like(got, expected), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", ["gdn", "kda", "gla", "mlstm"])
def test_decays_can_still_learn(name: str) -> None:
    mixer, factors, _ = prepared(name, Start())
    assert factors.log_decay is not None
    factors.log_decay.sum().backward()
    last = {"gdn": "a_proj", "kda": "f_proj.1", "gla": "gk_proj.1", "mlstm": "fgate_preact"}[name]
    weight = mixer.get_parameter(f"{last}.weight")
    assert not weight.any()
    assert weight.grad is not None
    assert weight.grad.abs().min() > 0


def test_an_uncapped_mlstm_has_the_same_half_lives() -> None:
    _, factors, _ = prepared("mlstm", Start(), gate_soft_cap=None)
    _, capped, _ = prepared("mlstm", Start())
    torch.testing.assert_close(factors.log_decay, capped.log_decay, rtol=1e-9, atol=0)


@pytest.mark.parametrize("name", ["retnet", "deltanet", "linear_attention"])
def test_some_mixers_have_no_half_life_to_set(name: str) -> None:
    mixer = MIXERS[name](OPTIONS)
    before = [parameter.clone() for parameter in mixer.parameters()]
    assert not set_half_lives(mixer, spread_half_lives(Start(), 3))
    for old, new in zip(before, mixer.parameters(), strict=True):
        assert torch.equal(old, new)
    assert not set_half_lives(
        MIXERS["gdn"](MixerOptions(**{**vars(OPTIONS), "decay_grain": "none"})),
        spread_half_lives(Start(), 3),
    )


@pytest.mark.parametrize("name", STUDENT_MIXERS)
def test_what_reads_the_input_is_at_identity(name: str) -> None:
    mixer, factors, x = prepared(name, Start())
    letters = {n: getattr(mixer, n if name == "mlstm" else f"{n}_proj") for n in "qkv"}
    raw = {n: (x @ layer.weight.T).unflatten(-1, (3, 4)) for n, layer in letters.items()}
    if name in ("gla", "gdn", "kda", "deltanet", "retnet"):  # convolved and activated
        raw = {n: F.silu(z) for n, z in raw.items()}
    torch.testing.assert_close(factors.v[:, :, 0], raw["v"], rtol=1e-9, atol=1e-12)
    if name == "retnet":  # rotated as well
        return
    for n, got in (("q", factors.q), ("k", factors.k[:, :, 0])):
        expected = raw[n]
        if name in ("gdn", "kda", "deltanet"):
            expected = expected / (expected.square().sum(-1, keepdim=True) + 1e-6).sqrt()
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["gdn", "kda", "deltanet"])
@pytest.mark.parametrize("negative", [False, True])
def test_beta_is_half_of_its_range(name: str, negative: bool) -> None:
    _, factors, _ = prepared(name, Start(), negative_eigenvalues=negative)
    assert factors.beta is not None
    assert bool((factors.beta == (1.0 if negative else 0.5)).all())


def test_the_mlstm_writes_with_half_strength() -> None:
    _, factors, _ = prepared("mlstm", Start(), gate_soft_cap=None)
    assert factors.log_write is not None
    torch.testing.assert_close(
        factors.log_write.exp(), torch.full_like(factors.log_write, 0.5), rtol=1e-7, atol=0
    )


def test_own_starts_are_left_alone() -> None:
    own = Start(conv="own", feature_map="own", beta="own")
    for name in STUDENT_MIXERS:
        mixer = MIXERS[name](OPTIONS)
        assert isinstance(mixer, LinearMixer)
        mixer.initialise(torch.Generator().manual_seed(0), 0.5)
        before = [parameter.clone() for parameter in mixer.parameters()]
        set_identities(mixer, own)
        for old, new in zip(before, mixer.parameters(), strict=True):
            assert torch.equal(old, new)


def test_half_lives_spread_evenly_in_the_logarithm() -> None:
    lives = spread_half_lives(Start(half_lives=(1.0, 16.0)), 5)
    torch.testing.assert_close(lives, torch.tensor([1, 2, 4, 8, 16.0]).double())
    assert float(spread_half_lives(Start(half_lives=(1.0, 16.0)), 1)) == pytest.approx(4.0)


def test_refusals() -> None:
    with pytest.raises(ValidationError, match=r"half_lives: \(5.0, 2.0\) is not allowed"):
        Start(half_lives=(5.0, 2.0))
    with pytest.raises(ValidationError, match="betta: no such field, perhaps you meant beta"):
        Start.model_validate({"betta": "half"})
