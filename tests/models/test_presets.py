"""Presets: every one builds on the meta device, and its parameters are those of a hand formula."""

import re
import resource
import time
from functools import cache

import pytest
import torch

from lt2theory.mixers import MIXERS, LinearMixer
from lt2theory.models import (
    LoopedConfig,
    LoopedModel,
    described_presets,
    find_preset,
    presets,
    toys,
)
from lt2theory.models.parameters import parameter_parts

EVERY = sorted(presets())
parts_of = cache(lambda name: parameter_parts(presets()[name]))
LARGE = [name for name in EVERY if not name.startswith("toy-")]


def test_every_preset_builds_on_the_meta_device_within_seconds() -> None:
    begun, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for config in presets().values():
        with torch.device("meta"):
            model = LoopedModel(config)
        assert all(parameter.is_meta for parameter in model.parameters())
    assert time.perf_counter() - begun < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 150 * 1024  # KiB


def by_hand(config: LoopedConfig) -> dict[str, int]:
    """Parameters of a model by part, from the papers' shapes."""
    d, n = config.width, config.num_layers
    mixers = [mixer_by_hand(config, layer) for layer in range(n)]
    norms = (1 + (config.ffn_width != 0)) * (1 + config.sandwich_norm) * d
    return {
        "embedding": config.vocab_size * d,
        "mixers": sum(mixers),
        "ffn": n * 3 * d * config.hidden_width,
        "norms": n * norms + d,
        "loop_gate": config.num_loops * d * config.loop_gate,
        "exit_gate": (d + 1) * config.exit_gate,
        "head": 0 if config.tie_embeddings else config.vocab_size * d,
    }


def mixer_by_hand(config: LoopedConfig, layer: int) -> int:
    total = 0
    for spec in config.mixers_at(layer):
        k, v = config.head_dims(spec)
        total += MIXER[spec.mixer](config, config.width, config.num_heads, k, v)
    return total


def _softmax(c: LoopedConfig, d: int, h: int, k: int, v: int) -> int:
    groups = c.num_kv_heads or h
    return d * (h * k + groups * (k + v) + h * v + c.output_gate * h * v)


def _indexed(c: LoopedConfig, d: int, h: int, k: int, v: int) -> int:
    m, i = c.index_heads, c.index_dim
    return _softmax(c, d, h, k, v) + d * (m * i + i + m) + 2 * i


def _delta(c: LoopedConfig, d: int, h: int, k: int, v: int, factors: int = 1) -> int:
    """q, k, v with their convolutions, beta, and the output projection with its norm a head."""
    channels = h * k + factors * h * (k + v)
    return channels * (d + c.conv_width) + factors * d * h + h * v * d + v


def _gated(c: LoopedConfig, d: int, h: int, k: int, v: int, factors: int = 1) -> int:
    """Beside the delta rule an output gate, and a decay with its rate and bias a head."""
    return _delta(c, d, h, k, v, factors) + d * h * v + d * h + 2 * h


def _kda(c: LoopedConfig, d: int, h: int, k: int, v: int) -> int:
    """Decay and gate through v numbers; a rate a head, a bias a decay and an output's channel."""
    decay, gate = d * v + v * h * k, d * v + v * h * v + h * v
    return _delta(c, d, h, k, v) + decay + h + h * k + gate


def _retention(c: LoopedConfig, d: int, h: int, k: int, v: int) -> int:
    return d * h * (2 * k + 3 * v) + c.conv_width * h * (2 * k + v) + v


MIXER = {
    "full": _softmax,
    "window": _softmax,
    "nsa": lambda c, d, h, k, v: _softmax(c, d, h, k, v) + 3 * d * h,
    "dsa": _indexed,
    "linear_attention": lambda c, d, h, k, v: d * h * 2 * (k + v) + 4 * k * (k + 1) + v,
    "retnet": _retention,
    "mamba2": lambda c, d, h, k, v: (
        d * (2 * h * v + 2 * k + h) + (c.conv_width + 1) * (h * v + 2 * k) + 3 * h + h * v * (d + 1)
    ),
    "gla": lambda c, d, h, k, v: _retention(c, d, h, k, v) + 16 * d + 17 * h * k,
    "hgrn2": lambda c, d, h, k, v: d * h * 2 * (k + v) + c.conv_width * h * (2 * k + v) + h * v,
    "mlstm": lambda c, d, h, k, v: d * h * (2 * k + 3 * v) + 2 * h * (d + 1) + h * v,
    "deltanet": _delta,
    "gdn": _gated,
    "kda": _kda,
    "gated_deltaproduct": lambda c, d, h, k, v: _gated(c, d, h, k, v, c.num_factors),
}


@pytest.mark.parametrize("name", EVERY)
def test_parameters_by_part_are_those_by_hand(name: str) -> None:
    assert parts_of(name) == by_hand(presets()[name])


@pytest.mark.parametrize("name", LARGE)
def test_a_name_says_how_large_it_is(name: str) -> None:
    """Within a fifth; gates, wide values and a second mixer make a few larger."""
    size = re.search(r"(\d+(?:\.\d+)?)([bm])(?:-|$)", name)
    assert size
    said = float(size[1]) * {"b": 1e9, "m": 1e6}[size[2]]
    got = sum(parts_of(name).values())
    wide = name.endswith(("retnet", "loop-gdn-full", "gdn", "full-gdn-gated"))
    assert 0.85 * said < got < (1.45 if wide else 1.2) * said


def test_sizes_that_are_published() -> None:
    """Ouro's and the official 1B file's, counted from their shapes."""
    assert sum(parts_of("ouro-1.4b").values()) == 1_434_652_673
    assert sum(parts_of("ouro-2.6b").values()) == 2_667_974_657
    assert round(sum(parts_of("lt2-1.3b-full").values()) / 1e9, 2) == 1.34
    assert round(sum(parts_of("lt2-1.3b-full-gdn").values()) / 1e9, 2) == 1.49
    layers = presets()["lt2-1.3b-full-gdn"].layers
    assert [i for i, layer in enumerate(layers) if layer.mixer == "full"] == [4, 9, 14, 19]


@pytest.mark.parametrize("scale", ["0.6b", "1.3b"])
def test_the_papers_families_are_there(scale: str) -> None:
    families = {name.removeprefix(f"lt2-{scale}-") for name in EVERY if f"lt2-{scale}-" in name}
    assert {name for name, kind in MIXERS.items() if issubclass(kind, LinearMixer)} <= families
    hybrids = {"full-gdn", "full-gdn-bookend", "gdn-dsa", "loop-coarse-to-fine"}
    assert {"full", "window", "nsa", "dsa"} | hybrids <= families
    config = presets()[f"lt2-{scale}-full-gdn"]
    bookend = presets()[f"lt2-{scale}-full-gdn-bookend"]
    kinds = [[layer.mixer for layer in each.layers] for each in (config, bookend)]
    assert sorted(kinds[0]) == sorted(kinds[1])
    assert kinds[1][0] == kinds[1][-1] == "full"


def test_every_preset_says_what_it_is() -> None:
    for name, each in described_presets().items():
        assert each.text.endswith("."), name
        assert "  " not in each.text
        assert "1.3b" not in name or "21 layers are those of the official 1B file" in each.text


def test_toys_are_the_presets_of_that_name() -> None:
    named = {name: config for name, config in presets().items() if name.startswith("toy-")}
    assert toys() == named


def test_an_unknown_name_is_answered_with_near_ones() -> None:
    assert find_preset("ouro-1.4b").config == presets()["ouro-1.4b"]
    with pytest.raises(
        ValueError, match=r"preset: 'ouro-1\.4' is not allowed, perhaps you meant ouro-1\.4b"
    ):
        find_preset("ouro-1.4")
    for named in (presets(), described_presets()):
        assert isinstance(named, dict)
        with pytest.raises(KeyError, match=r"preset: 'ouro-1\.4' .* perhaps you meant ouro-1\.4b"):
            named["ouro-1.4"]
    with pytest.raises(KeyError, match="perhaps you meant toy-gdn"):
        toys()["toy_gnd"]
