"""A training step of a looped toy on a GPU: eager, compiled, as a CUDA graph, and both.

Every row is a process of its own. It starts with empty caches of compiled kernels, as on a bare
machine, and once more with what the first left there.
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from lt2theory.bench.rates import copy_rate
from lt2theory.bench.rows import OnRow, unheard
from lt2theory.bench.train_step_process import Setting, run_config
from lt2theory.mixers import MIXERS, LinearMixer
from lt2theory.models import LoopedConfig
from lt2theory.models.flops import factor_steps, step_flops

PRODUCTS = 784e12
"""Multiplications and additions a second of large bfloat16 products on an H200, as measured."""
CACHES = ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")


def settings_of(
    patterns: Iterable[str],
    loop_states: Iterable[str],
    ways: Iterable[str],
    *,
    backend: str = "auto",
    batch: int = 256,
    length: int = 256,
) -> list[Setting]:
    """All combinations that exist: a pattern of attention alone only rescans.

    Args:
        patterns: Layer patterns.
        loop_states: `rescan` or `accumulate`.
        ways: Keys of `WAYS`.
        backend: Backend of the ops.
        batch: Rows.
        length: Tokens a row.

    Returns:
        The settings, nothing twice.
    """
    places = dict.fromkeys(itertools.product(patterns, loop_states, ways))
    return [
        Setting(pattern, loop_state, way=way, backend=backend, batch=batch, length=length)
        for pattern, loop_state, way in places
        if loop_state == "rescan" or _has_linear_layer(pattern)
    ]


def _has_linear_layer(pattern: str) -> bool:
    layers = LoopedConfig(num_layers=2, pattern=pattern).layers
    return any(issubclass(MIXERS[layer.mixer], LinearMixer) for layer in layers)


def bench_train_step(
    settings: list[Setting], *, steps: int = 50, on_row: OnRow = unheard
) -> pd.DataFrame:
    """Time training steps.

    Args:
        settings: What to measure.
        steps: Steps that are timed.
        on_row: Told of every row as it is measured.

    Returns:
        One row a setting: its fields, `ms` a step, `tokens_per_second`, `start_s` (from the start
        of the process on a bare machine to steady steps), `start_again_s` (the same with caches),
        `peak_gib` of device memory, `flops_ms` and `bytes_ms` (`step_flops` and `step_bytes` at the
        rates of products and of a copy), and `ratio` (ms over the larger of both).

    Raises:
        ValueError: There is no CUDA device, or a field of a setting is not allowed.
        RuntimeError: A process failed; the end of what it said.
    """
    if not torch.cuda.is_available():
        raise ValueError(
            "device: lt2 bench train-step needs a CUDA device for its times; --device cpu compares "
            "eager and compiled steps on a CPU"
        )
    configs = [run_config(setting) for setting in settings]
    rate = copy_rate()
    torch.cuda.empty_cache()
    rows = []
    for setting, config in zip(settings, configs, strict=True):
        with tempfile.TemporaryDirectory() as caches:
            bare = in_fresh_process([setting], Path(caches), steps=1)[0]
            found = in_fresh_process([setting], Path(caches), steps=steps)[0]
        tokens = setting.batch * setting.length
        flops_ms = 1e3 * step_flops(config.model, setting.batch, setting.length) / PRODUCTS
        bytes_ms = 1e3 * step_bytes(config.model, setting.batch, setting.length) / rate
        rows.append(
            asdict(setting)
            | {
                "ms": found["ms"],
                "tokens_per_second": 1e3 * tokens / found["ms"],
                "start_s": bare["start_s"],
                "start_again_s": found["start_s"],
                "peak_gib": found["peak_gib"],
                "flops_ms": flops_ms,
                "bytes_ms": bytes_ms,
                "ratio": found["ms"] / max(flops_ms, bytes_ms),
            }
        )
        on_row(rows[-1])
    return pd.DataFrame(rows)


def in_fresh_process(
    settings: list[Setting], caches: Path, *, steps: int, timeout: float = 600.0
) -> list[dict[str, Any]]:
    """Measure settings in a new process.

    Args:
        settings: What to measure, in turn.
        caches: Where the process keeps what it compiles.
        steps: Steps that are timed.
        timeout: Seconds that it may take.

    Returns:
        What `train_step_process.measure` gives for each, with the setting's fields and `start_s`:
        seconds from the start of the process until the setting's first steps were done.

    Raises:
        RuntimeError: The process failed.
    """
    asked = json.dumps({"settings": [asdict(setting) for setting in settings], "steps": steps})
    kept = {name: str(caches / name.lower()) for name in CACHES}
    began = time.time()
    done = subprocess.run(
        [sys.executable, "-m", "lt2theory.bench.train_step_process", asked],
        env=os.environ | kept,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"train-step: the process failed: {done.stderr[-2000:]}")
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return [row | {"start_s": row["ready"] - began} for row in rows]


def step_bytes(config: LoopedConfig, batch: int, length: int) -> float:
    """Bytes that must move where a block is three kernels: before the op, the op, after it.

    A token, layer and loop: the residual stream is read and written (8 d), and q, k, v and the
    output are written by one kernel and read by the next (`2 * 4 h (2k + 2v)`; half of that for
    attention, which stays in bfloat16); under `accumulate` the op of loop tau reads the keys and
    values of all tau loops. Backward moves the same again and gradients of the same sizes: three
    times in all. The logits move in bfloat16 (`3 * 4 vocab`). Weights and optimiser are left out.

    Args:
        config: Config of the model.
        batch: Rows.
        length: Tokens a row.

    Returns:
        The bytes.
    """
    total = 4.0 * config.vocab_size
    for spec in config.layers:
        options = config.mixer_options(spec)
        widths = options.num_heads * (options.head_dim + options.value_dim)
        linear = issubclass(MIXERS[spec.mixer], LinearMixer)
        size = 4 if linear else 2
        total += config.num_loops * (8 * config.width + 2 * size * 2 * widths)
        if linear:
            total += (factor_steps(config) - config.num_loops) * size * widths
    return 3 * batch * length * total
