"""`lt2 bench lm-step`: a training step of full-scale presets, on one GPU or under torchrun."""

from typing import Literal

from pydantic import Field

from lt2theory.cli.bench_output import Growing, check_lists, publish
from lt2theory.cli.errors import DONE
from lt2theory.cli.output import JsonCopy, check_file
from lt2theory.cli.parsing import parse
from lt2theory.fields import Frozen


class LmStepOptions(Frozen):
    """Which models take steps, and how."""

    presets: tuple[str, ...] = Field(
        ("lt2-1.3b-full", "lt2-1.3b-gdn", "lt2-1.3b-full-gdn", "lt2-1.3b-gdn-dsa"),
        description="Names of models, as `lt2 bench model all` lists them.",
    )
    batch: int = Field(8, ge=1, description="Windows of a step, of each process.")
    length: int = Field(2048, ge=2, description="Tokens of a window.")
    micro_batch: int | None = Field(
        None, ge=1, description="Windows that a process runs at once; None for all."
    )
    checkpointing: Literal["none", "loop", "block"] = Field(
        "loop", description="What backward computes again instead of keeping it."
    )
    parallel: Literal["auto", "fsdp", "replicate"] = Field(
        "auto", description="How the processes that torchrun has started share the work."
    )
    steps: int = Field(5, ge=1, description="Steps that are timed, after two others.")
    device: Literal["cuda", "cpu"] = Field(
        "cuda", description="Where; on a CPU, in float32, it only shows that the step runs."
    )


def lm_step(argv: list[str]) -> int:
    """Time the step of `lt2 train` on random ids.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.

    Raises:
        ValueError: A preset or an option is not allowed, or there is no GPU.
    """
    description = (
        "Time a training step of language-model presets: tokens a second, model FLOPs utilisation, "
        "memory. 'torchrun --nproc-per-node N -m lt2theory bench lm-step ...' times it over N GPUs."
    )
    options, copy = parse(
        "lt2 bench lm-step", argv, description, options=LmStepOptions, copy=JsonCopy
    )
    check_file(copy.json, "--json")
    import pandas as pd

    from lt2theory.bench.lm_step import Setting, bench_lm_step
    from lt2theory.models import presets
    from lt2theory.training.lm.ranks import join_ranks
    from lt2theory.training.runtime import Runtime

    check_lists(options, presets=presets())
    device = Runtime.of(options.device, "float32").device_name
    shared = options.model_dump(exclude={"presets", "steps", "device"})
    dtype: Literal["bfloat16", "float32"] = "bfloat16" if options.device == "cuda" else "float32"
    settings = [
        Setting(preset=name, dtype=dtype, **shared) for name in dict.fromkeys(options.presets)
    ]
    with join_ranks(options.device) as ranks:
        rows = []
        told = Growing(copy.json, threads=1, device=device) if ranks.is_first else None
        for row in bench_lm_step(settings, ranks, steps=options.steps):
            rows.append(row)
            if told is not None:
                told(row)
    if told is not None:
        publish(pd.DataFrame(rows), copy.json, threads=1, device=device)
    return DONE
