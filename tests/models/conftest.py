"""Small models in float64, one for every preset."""

from collections.abc import Callable

import pytest
import torch

from lt2theory.models import LoopedConfig, LoopedModel, presets

SMALL = {
    "width": 16,
    "num_heads": 2,
    "vocab_size": 11,
    "window": 5,
    "block_size": 4,
    "num_blocks": 2,
    "top_k": 4,
    "index_heads": 3,
    "index_dim": 6,
}


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(7)


@pytest.fixture
def build() -> Callable[..., LoopedModel]:
    """Build a float64 model from a preset's pattern, with every parameter away from its start."""

    def make(preset: str, **changes: object) -> LoopedModel:
        merged = {**presets()[preset].model_dump(), **SMALL, **changes}
        model = LoopedModel(LoopedConfig.model_validate(merged)).double()
        noise = torch.Generator().manual_seed(1)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.1 * torch.randn(
                    parameter.shape, generator=noise, dtype=torch.float64
                )
        return model

    return make


@pytest.fixture
def tokens(generator: torch.Generator) -> torch.Tensor:
    return torch.randint(11, (3, 23), generator=generator)
