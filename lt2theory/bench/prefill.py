"""Speed of reading a prompt at full scale on a GPU: logits of the last position only."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pandas as pd
import torch
from torch import Tensor

from lt2theory.bench.decode import full_scale, random_model
from lt2theory.bench.rates import median_ms, require_cuda
from lt2theory.bench.rows import OnRow, unheard
from lt2theory.bench.train_step import PRODUCTS
from lt2theory.models import LoopedConfig, LoopedModel, prefill
from lt2theory.models.flops import forward_flops


@dataclass(frozen=True)
class Setting:
    """One measurement.

    Attributes:
        pattern: A key of `lt2theory.bench.decode.PATTERNS`.
        batch: Rows.
        context: Tokens of a row.
        chunk: Tokens of a row that one call reads into a cache; 0 reads all in one call without
            one, as where only the logits are wanted.
        backend: Backend of the ops; one without it takes what `auto` would.
        layers: Layers of the model; 20 are the whole.
    """

    pattern: str
    batch: int
    context: int
    chunk: int = 0
    backend: str = "triton"
    layers: int = 20


def bench_prefill(
    settings: list[Setting], *, repeats: int = 3, on_row: OnRow = unheard
) -> pd.DataFrame:
    """Time reading a prompt of random tokens.

    Every setting runs once before, so that its kernels are there. Where memory does not suffice,
    the batch is halved until it does.

    Args:
        settings: What to measure; those of one pattern share a model and the sizes of a growth.
        repeats: Runs that are timed; the median counts.
        on_row: Told of every row as it is measured.

    Returns:
        One row a setting: its fields, `fits` (rows that ran at once), `ms`, `tokens_per_second`,
        `peak_gib` of GPU memory, `floor_ms` (`prefill_flops` at the rate of large products),
        `ratio` (ms over the floor) and `growth` (ms a row over that of the pattern's shortest
        context). NaN where not even one row fits.

    Raises:
        ValueError: There is no CUDA device.
    """
    require_cuda("prefill")
    rows = []
    for pattern, layers in dict.fromkeys((each.pattern, each.layers) for each in settings):
        own = [each for each in settings if (each.pattern, each.layers) == (pattern, layers)]
        rows += _bench_pattern(sorted(own, key=lambda each: each.context), repeats, on_row)
        torch.cuda.empty_cache()
    return pd.DataFrame(rows)


def model_config(setting: Setting) -> LoopedConfig:
    """The model that is timed.

    Args:
        setting: The measurement.

    Returns:
        LT2's 1.3B sizes with the setting's layers and backend.
    """
    changed = {"num_layers": setting.layers, "backend": setting.backend}
    return LoopedConfig(**full_scale(setting.pattern).model_dump() | changed)


def _bench_pattern(settings: list[Setting], repeats: int, on_row: OnRow) -> list[dict[str, object]]:
    """The settings of one pattern, the shortest context first."""
    model = random_model(model_config(settings[0]))
    rows: list[dict[str, object]] = []
    shortest: dict[tuple[int, str], float] = {}
    for setting in settings:
        model.config = model_config(setting)
        fits, ms, gib = _largest_fit(model, setting, repeats)
        floor = 1e3 * prefill_flops(model, fits or setting.batch, setting.context) / PRODUCTS
        a_row = ms / fits if fits else torch.nan
        first = shortest.setdefault((setting.chunk, setting.backend), a_row)
        measured = {
            "fits": fits,
            "ms": ms,
            "tokens_per_second": 1e3 * fits * setting.context / ms,
            "peak_gib": gib,
            "floor_ms": floor,
            "ratio": ms / floor,
            "growth": a_row / first,
        }
        rows.append(vars(setting) | measured)
        on_row(rows[-1])
    return rows


def _largest_fit(model: LoopedModel, setting: Setting, repeats: int) -> tuple[int, float, float]:
    """Rows that fit (0: not even one), milliseconds and the highest GiB of memory."""
    rows = setting.batch
    while rows:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        try:
            read = reader(model, replace(setting, batch=rows))
            read()  # another length may need kernels that are not compiled yet
            ms = median_ms(read, repeats)
        except torch.cuda.OutOfMemoryError:
            rows //= 2  # the traceback holds what it had, until this clause ends
            continue
        return rows, ms, torch.cuda.max_memory_allocated() / 2**30
    return 0, torch.nan, torch.nan


def reader(model: LoopedModel, setting: Setting) -> Callable[[], Tensor]:
    """A call that reads a whole prompt of random tokens from the start.

    Args:
        model: The model.
        setting: Rows, tokens and whether they are read in pieces.

    Returns:
        The call; it gives the logits after the last token `[b vocab]`.
    """
    device = model.embedding.weight.device
    size = (setting.batch, setting.context)
    generator = torch.Generator(device).manual_seed(0)
    tokens = torch.randint(model.config.vocab_size, size, generator=generator, device=device)

    @torch.no_grad()
    def read() -> Tensor:
        if setting.chunk:
            return prefill(model, tokens, model.new_cache(setting.batch), chunk=setting.chunk)
        logits: Tensor = model(tokens, last_logits=1)
        return logits[:, 0]

    return read


def prefill_flops(model: LoopedModel, batch: int, context: int) -> float:
    """Multiplications and additions that reading a prompt cannot do without.

    Those of `lt2theory.models.flops.forward_flops`, but the head reads the last position alone.

    Args:
        model: The model.
        batch: Rows.
        context: Tokens of a row.

    Returns:
        The number.
    """
    config = model.config
    parts = forward_flops(config, context)
    return batch * (parts["blocks"] + parts["mixing"] + 2.0 * config.width * config.vocab_size)
