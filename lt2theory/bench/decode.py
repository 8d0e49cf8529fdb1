"""Speed of decoding at full scale on a GPU, beside its floor in bytes and slower ways."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pandas as pd
import torch
from torch import Tensor

from lt2theory.bench.rates import copy_rate, mean_ms, require_cuda
from lt2theory.bench.rows import OnRow, unheard
from lt2theory.mixers import MIXERS, LinearMixer
from lt2theory.models import Decoder, LoopedConfig, LoopedModel
from lt2theory.models.parameters import visited_parameters
from lt2theory.models.pattern import LayerSpec

PATTERNS = {
    "gdn": "gdn",
    "full": "full",
    "full-gdn": "full,gdn*4",
    "gdn-dsa": "gdn*4,dsa",
    "nsa": "nsa",
    "window": "window(512)",
}
"""Layer patterns by name, each laid over 20 layers."""
PROMPT = 8
"""Tokens read before the buffers are said to be full up to the context."""


@dataclass(frozen=True)
class Setting:
    """One measurement.

    Attributes:
        pattern: A key of `PATTERNS`.
        batch: Rows.
        context: Tokens already in the buffers.
    """

    pattern: str
    batch: int
    context: int


def full_scale(pattern: str) -> LoopedConfig:
    """LT2's 1.3B sizes: 20 layers shared over four loops.

    Args:
        pattern: A key of `PATTERNS`.

    Returns:
        The configuration: width 2048, 16 heads with keys of 96 and values of 192, FFN 5632,
        vocabulary 128,256.
    """
    return LoopedConfig(
        vocab_size=128_256,
        width=2048,
        num_layers=20,
        num_loops=4,
        pattern=PATTERNS[pattern],
        num_heads=16,
        head_dim=96,
        value_dim=192,
        ffn_width=5632,
        block_size=64,
        num_blocks=16,
        window=512,
        top_k=2048,
        index_heads=8,
        index_dim=64,
        # Only the short prompt runs through it: no kernels need be tuned for that.
        backend="chunked",
    )


def bench_decode(
    settings: list[Setting], *, steps: int = 30, eager: bool = True, on_row: OnRow = unheard
) -> pd.DataFrame:
    """Time one token-step of every setting.

    Args:
        settings: What to measure; those of one pattern share a model.
        steps: Replays that are timed; the mean counts.
        eager: Also time `LoopedModel.forward` with a cache, for the linear patterns.
        on_row: Told of every row as it is measured.

    Returns:
        One row a setting and way: pattern, batch, context, way (`fused`, `graph`, `forward`), ms,
        tokens_per_second, gpu_gib (memory at its highest), floor_ms (bytes that must move over the
        measured copy rate) and ratio. A setting that does not fit has one row, whose way is
        `out of memory` and whose numbers are NaN but for the floor.

    Raises:
        ValueError: There is no CUDA device.
    """
    require_cuda("decode")
    rate = copy_rate()
    rows = []
    for pattern in dict.fromkeys(setting.pattern for setting in settings):
        model = random_model(full_scale(pattern))
        for setting in [some for some in settings if some.pattern == pattern]:
            floor = 1e3 * step_bytes(model, setting.batch, setting.context) / rate
            for way, ms, gib in _ways_that_fit(model, setting, steps, eager=eager):
                each = {"way": way, "ms": ms, "tokens_per_second": 1e3 * setting.batch / ms}
                each |= {"gpu_gib": gib, "floor_ms": floor, "ratio": ms / floor}
                rows.append(vars(setting) | each)
                on_row(rows[-1])
        del model
        torch.cuda.empty_cache()
    return pd.DataFrame(rows)


_Timed = tuple[str, float, float]
"""A way, its milliseconds, and the highest GiB of GPU memory meanwhile."""


def _ways_that_fit(
    model: LoopedModel, setting: Setting, steps: int, *, eager: bool
) -> list[_Timed]:
    try:
        return _ways(model, setting, steps, eager=eager)
    except torch.cuda.OutOfMemoryError:
        pass  # its traceback holds the buffers, so they are freed only after this clause
    torch.cuda.empty_cache()
    return [("out of memory", math.nan, math.nan)]


def _ways(model: LoopedModel, setting: Setting, steps: int, *, eager: bool) -> list[_Timed]:
    tokens = torch.zeros(setting.batch, dtype=torch.int64, device="cuda")
    found = []
    for way, fused in (("fused", True), ("graph", False)):
        torch.cuda.reset_peak_memory_stats()
        decoder = decoder_at(model, setting, fused=fused, steps=steps)
        ms = _milliseconds(partial(decoder.step, tokens), steps)
        found.append((way, ms, torch.cuda.max_memory_allocated() / 2**30))
        del decoder
        torch.cuda.empty_cache()
    linear = all(issubclass(MIXERS[layer.mixer], LinearMixer) for layer in model.config.layers)
    if eager and linear:
        torch.cuda.reset_peak_memory_stats()
        cache = model.new_cache(setting.batch)
        model(tokens[:, None].expand(-1, PROMPT), cache)
        ms = _milliseconds(partial(model, tokens[:, None], cache), max(3, steps // 10))
        found.append(("forward", ms, torch.cuda.max_memory_allocated() / 2**30))
    return found


@torch.no_grad()
def decoder_at(model: LoopedModel, setting: Setting, *, fused: bool, steps: int) -> Decoder:
    """A decoder whose buffers are full up to a context; what they hold is random.

    Args:
        model: The model.
        setting: Rows and context.
        fused: As for `Decoder`.
        steps: Steps that will be taken.

    Returns:
        The decoder.
    """
    device = model.embedding.weight.device
    prompt = torch.zeros(setting.batch, PROMPT, dtype=torch.int64, device=device)
    cache = model.new_cache(setting.batch)
    model(prompt, cache, last_logits=1)
    decoder = Decoder(model, cache, capacity=setting.context + 2 * steps + 10, fused=fused)
    decoder.pretend(setting.context, generator=torch.Generator(device).manual_seed(0))
    return decoder


def _milliseconds(call: Callable[[], Tensor], steps: int) -> float:
    with torch.no_grad():
        for _ in range(5):
            call()
        return mean_ms(call, steps)


def random_model(config: LoopedConfig, device: str = "cuda") -> LoopedModel:
    """A model with starting weights in bfloat16.

    Args:
        config: Its configuration.
        device: Where it is made.

    Returns:
        The model.
    """
    with torch.device(device):
        model = LoopedModel(config, generator=torch.Generator(device).manual_seed(0))
    return model.to(torch.bfloat16)


def step_bytes(model: LoopedModel, batch: int, context: int) -> float:
    """Bytes that one step must move: weights once a loop, the head once, states, keys and values.

    States are read and written in float32; keys and values are read in bfloat16, as many as the
    mixer attends to (NSA: a mean a block, in float32, since rounded ones would choose other blocks;
    the selected blocks and the window. DSA: all keys of its indexer, and the selected keys and
    values).

    Args:
        model: The model.
        batch: Rows.
        context: Tokens in the buffers.

    Returns:
        The bytes.
    """
    config = model.config
    weights = 2.0 * (visited_parameters(config) + config.vocab_size * config.width)
    read = sum(_read(config, spec, batch, context) for loop in config.loops for spec in loop)
    return weights + read


def _read(config: LoopedConfig, spec: LayerSpec, batch: int, context: int) -> float:
    options = config.mixer_options(spec)
    if issubclass(MIXERS[spec.mixer], LinearMixer):
        return 2 * 4.0 * batch * options.num_heads * options.head_dim * options.value_dim
    pair = 2.0 * batch * options.num_kv_heads * (options.head_dim + options.value_dim)
    seen = min(context, options.window or context)
    if spec.mixer == "nsa":
        blocks = context // options.block_size
        seen = 2 * blocks + min(context, options.num_blocks * options.block_size) + seen
    if spec.mixer == "dsa":
        return pair * min(context, options.top_k) + 2.0 * batch * context * options.index_dim
    return pair * seen
