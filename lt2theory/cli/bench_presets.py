"""`lt2 bench presets FILE`: prefill, decoding and a training step of every full-scale preset."""

import sys
import time
from pathlib import Path
from typing import Any, Literal

import tyro
from pydantic import Field

from lt2theory.cli.bench_output import check_backend, check_lists
from lt2theory.cli.errors import DONE
from lt2theory.cli.output import check_file
from lt2theory.cli.parsing import parse
from lt2theory.fields import Frozen

DESCRIPTION = (
    "Time a prompt, a token-step and a training step (float32 masters, bfloat16 products, AdamW, "
    "activation checkpointing by loop) of the 1.3B presets and Ouro's, each on its best path, with "
    "memory and floors. The work is done in another process, which is replaced where it dies; "
    "sessions add to one file."
)


class PresetsOptions(Frozen):
    """What is measured, for how long, and where the rows are kept."""

    file: tyro.conf.Positional[Path] = Field(
        description="JSON file of the rows; what it has already is not measured again."
    )
    presets: tuple[str, ...] = Field(
        ("*",), description="Names of models; * is every 1.3B preset and ouro-1.4b."
    )
    phases: tuple[Literal["prefill", "decode", "train"], ...] = Field(
        ("prefill", "decode", "train"), description="What each of them does."
    )
    minutes: float = Field(10.0, gt=0, allow_inf_nan=False, description="Length of the session.")
    limit: float = Field(
        120.0,
        gt=0,
        allow_inf_nan=False,
        description="Seconds that one measurement may take, compilation included.",
    )
    prefill: tuple[int, int] = Field((1, 8192), description="Rows and tokens of a prompt.")
    decode: tuple[int, int] = Field((8, 8192), description="Rows, and tokens in their caches.")
    train: tuple[int, int] = Field((4, 2048), description="Windows of a step, and their tokens.")
    steps: int = Field(20, ge=1, description="Decoding steps that are timed.")
    train_steps: int = Field(1, ge=1, description="Training steps that are timed, after two.")
    backend: str = Field("triton", description="Backend of the ops of a prefill.")
    device: Literal["cuda", "cpu"] = Field(
        "cuda", description="Where; on a CPU it only shows that everything runs."
    )


def presets(argv: list[str]) -> int:
    """Measure what a file lacks.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.

    Raises:
        ValueError: An option is not allowed, the file is another machine's, or there is no GPU.
    """
    (options,) = parse("lt2 bench presets", argv, DESCRIPTION, options=PresetsOptions)
    check_file(options.file, "FILE", suffixes=(".json",))
    from lt2theory.bench.efficiency_file import add_rows, left_to_do
    from lt2theory.bench.presets import (
        KEY,
        Job,
        Way,
        full_scale_presets,
        measure_presets,
        preset_table,
    )
    from lt2theory.models import presets as all_presets
    from lt2theory.runs.environment import capture
    from lt2theory.training.runtime import Runtime

    named = [full_scale_presets() if name == "*" else (name,) for name in options.presets]
    names = tuple(dict.fromkeys(name for several in named for name in several))
    options = options.model_copy(update={"presets": names})
    check_lists(options, presets=all_presets())
    check_backend(options.backend)
    device = Runtime.of(options.device, "float32").device_name
    jobs = [
        Job(name, phase, *getattr(options, phase))
        for name in names
        for phase in dict.fromkeys(options.phases)
    ]
    left = left_to_do(jobs, options.file, KEY)
    way = Way(options.device, options.steps, options.train_steps, options.backend)
    until = time.monotonic() + 60 * options.minutes
    content = add_rows(
        options.file,
        lambda: measure_presets(left, way, until=until, limit=options.limit) if left else iter(()),
        command=" ".join(["lt2 bench presets", *argv]),
        environment=capture(threads=1, device=device),
        told=lambda row: print(_line(row), file=sys.stderr, flush=True),
    )
    print(preset_table(content["rows"]).to_string(index=False, float_format="{:,.3g}".format))
    rest = len(left_to_do(jobs, options.file, KEY))
    print(f"{options.file}: {len(jobs) - rest} of {len(jobs)} rows; the same command goes on")
    return DONE


def _line(row: dict[str, Any]) -> str:
    """One row on the screen."""
    where = f"{row['preset']:<28} {row['phase']:<7} {row['batch']} x {row['length']}: "
    if row.get("ms") is None:
        return f"{where}{row['reason']}"
    said = f"{row['ms']:,.2f} ms (floor {row['floor_ms']:,.2f}), {row['path']}"
    memory = "" if row["peak_gib"] is None else f", {row['peak_gib']:.1f} GiB"
    return where + said + memory + (f"; {row['reason']}" if row["reason"] else "")
