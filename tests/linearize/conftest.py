"""Small teachers in float64, with every parameter away from its start."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from lt2theory.models import LoopedConfig, LoopedModel

SMALL = {
    "vocab_size": 29,
    "width": 24,
    "num_layers": 3,
    "pattern": "full",
    "num_heads": 4,
    "num_kv_heads": 2,
    "head_dim": 6,
    "ffn_width": 40,
    "positions": "rope",
    "loop_gate": False,
    "norm_eps": 1e-6,
    "init_std": 0.2,
}
OURO = {
    **SMALL,
    "num_layers": 2,
    "num_loops": 3,
    "sandwich_norm": True,
    "norm_between_loops": True,
    "exit_gate": True,
    "loop_loss": "expected",
}


@pytest.fixture
def teacher() -> Callable[..., LoopedModel]:
    """Make a teacher: `teacher(num_loops=2)`, or `teacher("ouro")`."""

    def make(kind: str = "small", **changes: object) -> LoopedModel:
        base = OURO if kind == "ouro" else SMALL
        model = LoopedModel(LoopedConfig.model_validate({**base, **changes})).double()
        generator = torch.Generator().manual_seed(5)
        with torch.no_grad():
            for parameter in model.parameters():
                noise = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
                parameter += 0.1 * noise
        return model.eval()

    return make


@pytest.fixture
def text() -> Callable[[int, int, int], Tensor]:
    """Token ids of the small vocabulary: rows, length, seed."""

    def draw(rows: int, length: int, seed: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        return torch.randint(0, 29, (rows, length), generator=generator)

    return draw
