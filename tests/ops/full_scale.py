"""Launches of our kernels at the widths of LT2's 1.3B models, for tests that compile them.

16 heads with keys of 96 and values of 192, a width of 2048 and an FFN of 5632; few tokens.
"""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from lt2theory.bench.decode import full_scale
from lt2theory.models import Decoder, LoopedConfig, LoopedModel
from lt2theory.ops import AttentionProblem, Factors
from lt2theory.ops.attention_triton import triton_attention
from lt2theory.ops.fused.add_norm import fused_add_rms_norm
from lt2theory.ops.fused.gated_norm import fused_gated_rms_norm
from lt2theory.ops.fused.loop_residual import fused_loop_residual
from lt2theory.ops.fused.norm import fused_rms_norm
from lt2theory.ops.fused.short_conv import delta_inputs, padding
from lt2theory.ops.fused.swiglu import fused_swiglu
from lt2theory.ops.sparse.dsa_reference import IndexedProblem
from lt2theory.ops.sparse.dsa_triton import listed_indexed_attention, masked_indexed_attention
from lt2theory.ops.sparse.nsa_reference import BlockSparseProblem
from lt2theory.ops.sparse.triton_backend import triton_block_sparse
from lt2theory.ops.triton_delta.recurrence import ahead_recurrence

HEADS, KEYS, VALUES, WIDTH, HIDDEN = 16, 96, 192, 2048, 5632
BFLOAT16, FLOAT32 = torch.bfloat16, torch.float32
_LENGTH = 300


def _leaf(*size: int, dtype: torch.dtype) -> Tensor:
    return torch.zeros(*size, dtype=dtype, requires_grad=True)


def _differentiate(*found: Tensor) -> None:
    torch.autograd.backward(found, [torch.zeros_like(x) for x in found])


def _factors(dtype: torch.dtype, keys: int = KEYS, values: int = VALUES) -> Factors:
    steps = (1, _LENGTH, 1, 1)
    q, k = _leaf(1, _LENGTH, 1, keys, dtype=dtype), _leaf(*steps, keys, dtype=dtype)
    gates = {name: _leaf(*steps, dtype=dtype) for name in ("log_decay", "beta")}
    return Factors(q, k, _leaf(*steps, values, dtype=dtype), **gates)


def delta_rule_ahead(dtype: torch.dtype) -> None:
    for keys, values in ((KEYS, VALUES), (64, 64), (128, 256)):
        ahead_recurrence(_factors(dtype, keys, values))


def delta_rule_inputs(dtype: torch.dtype) -> None:
    channels = HEADS * (2 * KEYS + VALUES)
    columns = channels + 2 * HEADS
    z = _leaf(1, _LENGTH, columns + padding(columns), dtype=dtype)
    taps, rate, bias = (_leaf(*size, dtype=FLOAT32) for size in ((channels, 4), (HEADS,), (HEADS,)))
    segments = torch.zeros(1, _LENGTH, dtype=torch.int64)
    for packed in (None, segments):
        _differentiate(*delta_inputs(z, taps, rate, bias, [HEADS, 1, KEYS, VALUES, 1], packed))


def rows(dtype: torch.dtype) -> None:
    """As under autocast: the residual stream is float32, what products give and take is not."""
    h, change = _leaf(_LENGTH, WIDTH, dtype=FLOAT32), _leaf(_LENGTH, WIDTH, dtype=dtype)
    weight, gain = _leaf(WIDTH, dtype=FLOAT32), _leaf(VALUES, dtype=FLOAT32)
    _differentiate(fused_rms_norm(h, weight, 1e-5, dtype))
    _differentiate(*fused_add_rms_norm(h, change, weight, 1e-5, dtype))
    o, gate = _leaf(1, HEADS, VALUES, dtype=FLOAT32), _leaf(1, HEADS * VALUES, dtype=dtype)
    _differentiate(fused_gated_rms_norm(o, gate, gain, 1e-5, dtype, True))
    _differentiate(fused_swiglu(_leaf(_LENGTH, 2 * HIDDEN, dtype=dtype)))
    _differentiate(fused_loop_residual(h, _leaf(_LENGTH, WIDTH, dtype=FLOAT32), weight))


def _heads(dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (_leaf(1, _LENGTH, 2, width, dtype=dtype) for width in (KEYS, KEYS, VALUES))
    return q, k, v


def window(dtype: torch.dtype) -> None:
    segments = torch.zeros(1, _LENGTH, dtype=torch.int64)
    for ids in (None, segments):
        problem = AttentionProblem(*_heads(dtype), 64, 0.1, ids, ids)
        _differentiate(triton_attention(problem))


def nsa(dtype: torch.dtype) -> None:
    gates = _leaf(1, _LENGTH, 2, 3, dtype=dtype)
    problem = BlockSparseProblem(
        *_heads(dtype), 64, 0.1, None, None, gates=gates, block_size=64, num_blocks=3
    )
    _differentiate(triton_block_sparse(problem))


def dsa(dtype: torch.dtype) -> None:
    index = [(1, _LENGTH, 8, 64), (1, _LENGTH, 64), (1, _LENGTH, 8)]
    q, k, weight = (_leaf(*size, dtype=dtype) for size in index)
    for attend in (masked_indexed_attention, listed_indexed_attention):
        problem = IndexedProblem(
            *_heads(dtype), None, 0.1, None, None,
            index_q=q, index_k=k, index_weight=weight, top_k=128,
        )  # fmt: skip
        _differentiate(attend(problem))


LAUNCHES: Sequence[tuple[Callable[[torch.dtype], None], torch.dtype]] = (
    (delta_rule_ahead, FLOAT32),
    (delta_rule_ahead, BFLOAT16),
    (delta_rule_inputs, FLOAT32),
    (delta_rule_inputs, BFLOAT16),
    (rows, BFLOAT16),
    (window, BFLOAT16),
    (window, FLOAT32),
    (nsa, BFLOAT16),
    (dsa, BFLOAT16),
)
"""Prompts and training, forward and backward: a function, and the dtype for it."""


def decode(
    pattern: str, batch: int, capacity: int, monkeypatch: pytest.MonkeyPatch, **sizes: object
) -> None:
    """A step of the decoder in bfloat16, through one layer of a pattern; `sizes` may be others."""
    small = {"pattern": pattern, "num_layers": 1, "num_loops": 1, "vocab_size": 64}
    config = LoopedConfig(**full_scale("gdn").model_dump() | small | sizes)
    with torch.no_grad():
        model = LoopedModel(config).to(torch.bfloat16)
        cache = model.new_cache(batch)
        model(torch.zeros(batch, 8, dtype=torch.int64), cache)
        for name in ("models.decoder", "ops.fused.decode_attention"):
            monkeypatch.setattr(f"lt2theory.{name}.is_interpreting", lambda: True)
        decoder = Decoder(model, cache, capacity=capacity, fused=True)
        decoder.step(torch.zeros(batch, dtype=torch.int64))
