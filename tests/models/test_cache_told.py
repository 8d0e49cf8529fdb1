"""Bytes of a cache told from the configuration, against caches that were filled."""

import pytest
import torch

from lt2theory.models import LoopedConfig, LoopedModel, presets, toys
from lt2theory.models.cache_told import told_bytes

SMALL = {
    "width": 16,
    "num_heads": 2,
    "vocab_size": 11,
    "window": 5,
    "value_dim": 6,
    "index_heads": 3,
    "index_dim": 6,
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("length", [4, 19])
def test_told_is_held(dtype: torch.dtype, length: int) -> None:
    for name, toy in toys().items():
        config = LoopedConfig.model_validate(toy.model_dump() | SMALL)
        model = LoopedModel(config).to(dtype)
        cache = model.new_cache(3)
        with torch.no_grad():
            model(torch.zeros(3, length, dtype=torch.int64), cache)
        held: dict[str, int] = {}
        for kinds in cache.bytes_by_layer().values():
            for kind, count in kinds.items():
                held[kind] = held.get(kind, 0) + count
        told = told_bytes(config, 3, length, dtype)
        assert told | {"snapshots": 0} == held, name


def test_the_large_ones_by_hand() -> None:
    """Keys and values of 16 heads in 21 layers and 4 loops; 17 states of 96 x 192 beside four."""
    full = told_bytes(presets()["lt2-1.3b-full"], 8, 8192)
    assert full["keys"] == 8 * 8192 * 21 * 4 * 2 * 2048 * 2
    assert sum(full.values()) == full["keys"]
    hybrid = told_bytes(presets()["lt2-1.3b-full-gdn"], 8, 8192)
    assert hybrid["keys"] * 21 == full["keys"] * 4
    assert hybrid["state"] == 8 * 17 * 4 * 16 * 96 * 192 * 4
    assert hybrid["convolution"] == 8 * 17 * 4 * 3 * (2 * 16 * 96 + 16 * 192) * 4
