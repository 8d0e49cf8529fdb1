"""A preset on paper: parameters, products, cache bytes, and the times that no machine can beat.

Nothing is allocated and nothing runs on a GPU: parameters are counted on the meta device.
"""

from dataclasses import dataclass
from typing import Any

import pandas as pd

from lt2theory.bench.decode import step_bytes
from lt2theory.bench.train_step import PRODUCTS
from lt2theory.models import find_preset, presets
from lt2theory.models.cache_told import told_bytes
from lt2theory.models.config import LoopedConfig
from lt2theory.models.flops import forward_flops, token_flops
from lt2theory.models.parameters import (
    meta_model,
    parameter_count,
    parameter_parts,
    visited_parameters,
)

COPIES = 4.28e12
"""Bytes a second that a large copy on an H200 reads and writes, as measured."""
STATE_BYTES = 32
"""A parameter's bytes in AdamW with float32 masters: weight, gradient and both moments, each read
and written."""


@dataclass(frozen=True)
class Rates:
    """What a machine does in a second.

    Attributes:
        copies: Bytes that it reads and writes.
        products: Multiplications and additions of matrix products in bfloat16.
    """

    copies: float = COPIES
    products: float = PRODUCTS


def describe_model(
    name: str,
    *,
    batch: int = 1,
    contexts: tuple[int, ...] = (1024, 4096, 16384, 32768, 131072),
    rates: Rates | None = None,
) -> dict[str, Any]:
    """Everything about a preset that its configuration decides.

    Args:
        name: Name of the preset.
        batch: Rows of the cache, of a decode step, a prefill and a training step.
        contexts: Tokens of a row.
        rates: What the machine does; an H200's measured rates if None.

    Returns:
        `preset`, `text` (its sources), `config`, `parameters` (by part, `total`, and
        `read_by_a_token`: those of the blocks once a loop, and the head), and `rows` as
        `floor_table` gives them.

    Raises:
        ValueError: There is no preset of the name.
    """
    preset = find_preset(name)
    parts = parameter_parts(preset.config)
    head = preset.config.vocab_size * preset.config.width
    counted = parts | {
        "total": sum(parts.values()),
        "read_by_a_token": visited_parameters(preset.config) + head,
    }
    table = floor_table(preset.config, batch, contexts, rates or Rates())
    return {
        "preset": name,
        "text": preset.text,
        "config": preset.config.model_dump(mode="json"),
        "parameters": counted,
        "rows": table.to_dict("records"),
    }


def floor_table(
    config: LoopedConfig, batch: int, contexts: tuple[int, ...], rates: Rates
) -> pd.DataFrame:
    """Products, cache and floors by context.

    A floor is the longer of two times: the products at their rate, and the bytes at theirs.
    Decoding moves what `lt2theory.bench.decode.step_bytes` says; a prefill reads the weights once a
    loop and writes the cache; a training step takes three times a forward's products, and
    afterwards moves `STATE_BYTES` a parameter for AdamW, which is added.

    Args:
        config: Config of the model.
        batch: Rows.
        contexts: Tokens of a row.
        rates: What the machine does.

    Returns:
        One row a context: context, batch, `gflops_per_token` (forward, mean over the text),
        `cache_mib` (bfloat16 model), `decode_ms` (a step after the context), `prefill_ms` (logits
        of the last position) and `train_ms` (a step on whole rows).
    """
    model = meta_model(config)
    parameters = sum(parameter_parts(config).values())
    weights = 2.0 * visited_parameters(config)
    rows = []
    for context in contexts:
        parts = forward_flops(config, context)
        forward = sum(parts.values())
        head = 2.0 * config.width * config.vocab_size
        cache = sum(told_bytes(config, batch, context).values())
        decode = _floor(
            batch * token_flops(config, context), step_bytes(model, batch, context), rates
        )
        read = batch * (parts["blocks"] + parts["mixing"] + head)
        train = 3 * batch * forward / rates.products + STATE_BYTES * parameters / rates.copies
        rows.append(
            {
                "context": context,
                "batch": batch,
                "gflops_per_token": forward / context / 1e9,
                "cache_mib": cache / 2**20,
                "decode_ms": 1e3 * decode,
                "prefill_ms": 1e3 * _floor(read, weights + head + cache, rates),
                "train_ms": 1e3 * train,
            }
        )
    return pd.DataFrame(rows)


def _floor(products: float, moved: float, rates: Rates) -> float:
    """Seconds."""
    return max(products / rates.products, moved / rates.copies)


def list_models() -> pd.DataFrame:
    """All presets and their sizes.

    Returns:
        One row a preset: preset, pattern, layers, loops, width and `parameters_m` (millions).
    """
    return pd.DataFrame(
        {
            "preset": name,
            "pattern": config.pattern,
            "layers": config.num_layers,
            "loops": config.num_loops,
            "width": config.width,
            "parameters_m": parameter_count(config) / 1e6,
        }
        for name, config in presets().items()
    )
