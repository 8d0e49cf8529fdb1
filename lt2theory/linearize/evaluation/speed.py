"""Speed and memory of a student beside its teacher: the same prompts, the same steps."""

import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch

from lt2theory.linearize.evaluation.intervals import Estimate
from lt2theory.linearize.evaluation.pair import EvaluationConfig, Pair
from lt2theory.linearize.evaluation.table import Measured
from lt2theory.models import Decoder, LoopedModel, prefill
from lt2theory.training.runtime import Runtime

_AT_ONCE = 4096
"""Tokens of all rows that one call of a prefill reads."""
_MIB = 2**20


def speed_rows(pair: Pair, config: EvaluationConfig) -> list[Measured]:
    """Speed and memory as rows of the table.

    Args:
        pair: The models; they run in the dtype of the runtime, without autocast.
        config: `speed_lengths`, `speed_batch`, `speed_steps` and `seed`. Lengths beyond the
            learned positions of a model are left out for it.

    Returns:
        For each model `weights_mib`, and for each length `cache_mib` (after the prompt),
        `prefill_ms` (of the second reading), `decode_ms` (a step of all rows, through `Decoder`:
        the median, between the 2.5th and 97.5th percentile of the steps) and on a GPU `peak_mib`.
    """
    return [
        row
        for name, model in pair.models()
        for row in speed_of(name, pair.decoding(model), pair.runtime, config)
    ]


def speed_of(
    name: str, model: LoopedModel, runtime: Runtime, config: EvaluationConfig
) -> Iterator[Measured]:
    """Speed and memory of one model.

    Args:
        name: What the rows call it.
        model: The model, on the device of the runtime and in its dtype.
        runtime: Device and precision.
        config: As for `speed_rows`.

    Yields:
        As `speed_rows`, of that model.
    """
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    yield Measured(part="speed", model=name, metric="weights_mib", value=weights / _MIB)
    for length in config.speed_lengths:
        limit = model.config.max_length
        if limit is not None and length + config.speed_steps + 1 > limit:
            continue
        with runtime.alone():
            found = _at_length(model, length, config)
        for metric, one in found.items():
            yield Measured.of(one, part="speed", model=name, length=length, metric=metric)


@torch.no_grad()
def _at_length(model: LoopedModel, length: int, config: EvaluationConfig) -> dict[str, Estimate]:
    device = model.embedding.weight.device
    generator = torch.Generator(device).manual_seed(config.seed)
    shape = (config.speed_batch, length)
    prompt = torch.randint(model.config.vocab_size, shape, generator=generator, device=device)
    chunk = max(1, _AT_ONCE // config.speed_batch)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    for _ in range(2):  # the first reading compiles kernels
        cache = model.new_cache(config.speed_batch)
        read = _milliseconds(partial(prefill, model, prompt, cache, chunk=chunk), device)
    decoder = Decoder(model, cache, capacity=length + config.speed_steps + 2)
    token = prompt[:, -1]
    decoder.step(token)  # records the graph
    steps = [_milliseconds(partial(decoder.step, token), device) for _ in range(config.speed_steps)]
    low, median, high = np.quantile(steps, (0.025, 0.5, 0.975)).tolist()
    found = {
        "cache_mib": _exact(cache.num_bytes() / _MIB),
        "prefill_ms": _exact(read),
        "decode_ms": Estimate(median, low, high, len(steps)),
    }
    if device.type == "cuda":
        found["peak_mib"] = _exact(torch.cuda.max_memory_allocated(device) / _MIB)
    return found


def _exact(value: float) -> Estimate:
    """A number that was found once."""
    return Estimate(value, float("nan"), float("nan"), 1)


def _milliseconds(call: Callable[[], object], device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    call()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return 1e3 * (time.perf_counter() - start)
