"""Traces with given factors, and small float64 models, for the analysers."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from lt2theory.models import LoopedConfig, LoopedModel, LoopTrace
from lt2theory.ops.factors import AttentionInputs, Factors

MakeTrace = Callable[..., LoopTrace]


def _trace(pattern: str = "gdn", length: int = 9, **fields: object) -> LoopTrace:
    settings = {
        "vocab_size": 5,
        "width": 12,
        "num_heads": 2,
        "num_layers": 2,
        "num_loops": 2,
        "pattern": pattern,
        "conv_width": 2,
        "backend": "reference",
        **fields,
    }
    tokens = torch.randint(0, 5, (3, length), generator=torch.Generator().manual_seed(0))
    return LoopedModel(LoopedConfig.model_validate(settings)).double().trace(tokens)


@pytest.fixture
def make_trace() -> MakeTrace:
    """The trace of a small float64 model: `make_trace(pattern, length, **config fields)`."""
    return _trace


@pytest.fixture
def trace_with() -> MakeTrace:
    """A trace whose layers prepared exactly the given inputs, keyed by (layer, loop)."""

    def make(prepared: dict[tuple[int, int], Factors | AttentionInputs], **fields: object):
        template = _trace("deltanet", next(iter(prepared.values())).q.shape[1], **fields)
        return replace(template, factors=prepared)

    return make
