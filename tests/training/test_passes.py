"""Passes of an evaluation fit the memory of the device, whatever the model holds for a token."""

import pytest
import torch

from lt2theory.models import LoopedConfig
from lt2theory.training import passes
from lt2theory.training.passes import rows_of_pass

GIB = 1 << 30


def model(**changes: object) -> LoopedConfig:
    given = {"width": 256, "num_layers": 4, "num_loops": 4, "vocab_size": 266, **changes}
    return LoopedConfig.model_validate(given)


@pytest.mark.parametrize(
    ("memory", "changes", "rows"),
    [
        (140 * GIB, {}, 1024),  # the 1,024 instances of an evaluation at 128 swaps at once
        (140 * GIB, {"loop_state": "accumulate"}, 256),
        (140 * GIB, {"loop_state": "accumulate", "num_loops": 8}, 128),
        (140 * GIB, {"width": 64}, 2048),  # 2^28 logits
        (140 * GIB, {"width": 64, "vocab_size": 16}, 2048),  # 2^20 tokens
        (140 * GIB, {"vocab_size": 2**20}, 1),
        (8 * GIB, {}, 64),
        (8 * GIB, {"loop_state": "accumulate"}, 16),
        (1 << 20, {}, 1),
    ],
)
def test_rows_of_a_gpu(
    monkeypatch: pytest.MonkeyPatch, memory: int, changes: dict[str, object], rows: int
) -> None:
    monkeypatch.setattr(passes, "_memory", lambda _: memory)
    assert rows_of_pass(model(**changes), 398, torch.device("cuda")) == rows


def test_rows_of_a_cpu() -> None:
    for changes in ({}, {"loop_state": "accumulate"}, {"width": 1024}):
        assert rows_of_pass(model(**changes), 398, torch.device("cpu")) == 10
    assert rows_of_pass(model(), 5000, torch.device("cpu")) == 1
