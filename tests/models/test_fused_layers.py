"""Fused blocks of attention layers give the plain decoder's logits, in Triton's interpreter."""

import pytest
import torch

from lt2theory.models import LoopedConfig, LoopedModel, presets
from lt2theory.models.decoder import Decoder
from lt2theory.models.fused_layers import why_not_fused

SPARSE = {"block_size": 2, "num_blocks": 3, "top_k": 4, "index_heads": 3, "index_dim": 6}
DEVICES = [
    pytest.param("cpu", marks=pytest.mark.interpreter),
    pytest.param("cuda", marks=pytest.mark.gpu),
]


def model_of(name: str, **changes: object) -> LoopedModel:
    small = {"vocab_size": 11, "width": 24, "num_heads": 4, "num_loops": 2, "window": 5}
    config = presets()[name].model_dump() | small | {"value_dim": 10, "output_gate": False}
    config = LoopedConfig.model_validate(config | SPARSE | changes)
    return LoopedModel(config, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["toy-full", "toy-window", "toy-nsa", "toy-dsa"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"positions": "rope", "num_kv_heads": 2},
        {"output_gate": True, "num_kv_heads": 1, "block_size": 3},
        {"positions": "rope", "block_size": 2**40, "num_blocks": 2**40, "top_k": 2**40},
        {"ffn_width": 0, "num_blocks": 1, "window": 1, "top_k": 1},
    ],
    ids=lambda changes: " ".join(changes) or "plain",
)
@torch.no_grad()
def test_fused_is_plain(device: str, name: str, changes: dict[str, object]) -> None:
    model = model_of(name, **changes).to(device)
    generator = torch.Generator().manual_seed(3)
    for parameter in model.parameters():  # gates and biases start at zero, norms at one
        parameter += 0.1 * torch.randn(parameter.shape, generator=generator).to(device)
    exact = model_of(name, **changes).double().to(device)
    exact.load_state_dict(model.state_dict())
    assert why_not_fused(model.config, model.config.layers[0].mixer, 13) is None
    tokens = torch.randint(0, 11, (2, 13), generator=generator).to(device)
    lengths = torch.tensor([2, 5], device=device)
    caches = model.new_cache(2), exact.new_cache(2)
    for each, cache in zip((model, exact), caches, strict=True):
        each(tokens[:, :5], cache, lengths=lengths)
    decoder = Decoder(model, caches[0], capacity=13, fused=True)
    wanted = Decoder(exact, caches[1], capacity=13, fused=False)
    assert len(decoder._fused) == model.config.num_layers
    for t in range(5, 13):
        found, right = decoder.step(tokens[:, t]).double(), wanted.step(tokens[:, t])
        assert (found - right).norm() <= 2e-5 * right.norm()


def test_reasons() -> None:
    config = model_of("toy-dsa", top_k=20000).config
    assert why_not_fused(config, "dsa", 2**14) is None
    assert "no fused choice of 20000" in str(why_not_fused(config, "dsa", 2**14 + 1))
    config = model_of("toy-nsa").config
    assert "more than 8192 blocks of 2" in str(why_not_fused(config, "nsa", 16400))
    assert "sandwich norm" in str(
        why_not_fused(model_of("toy-full", sandwich_norm=True).config, "full", 9)
    )
    assert "no fused step for gla" in str(why_not_fused(config, "gla", 9))
