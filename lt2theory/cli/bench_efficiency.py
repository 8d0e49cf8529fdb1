"""`lt2 bench efficiency FILE`: throughput and memory by length, in sessions of minutes."""

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

Form = Literal["looped", "same-parameters", "same-depth"]


class EfficiencyOptions(Frozen):
    """What is measured, for how long, and where the rows are kept."""

    file: tyro.conf.Positional[Path] = Field(
        description="JSON file of the rows; what it has already is not measured again."
    )
    minutes: float = Field(10.0, gt=0, allow_inf_nan=False, description="Length of the session.")
    arms: tuple[str, ...] = Field(
        ("full", "full-gdn", "gdn-dsa", "gdn", "nsa", "dsa"),
        description="Families of the 1.3B presets.",
    )
    forms: tuple[Form, ...] = Field(
        ("looped", "same-parameters", "same-depth"),
        description="The preset; its parameters with T = 1; as many layers as it applies, untied.",
    )
    phases: tuple[Literal["decode", "prefill"], ...] = Field(
        ("decode", "prefill"), description="One token a row, or a whole prompt."
    )
    batches: tuple[int, ...] = Field((1, 8, 32), description="Rows.")
    lengths: tuple[int, ...] = Field(
        (1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072), description="Tokens of a row."
    )
    steps: int = Field(30, ge=1, description="Decoding steps that are timed.")
    most_seconds: float = Field(
        20.0, gt=0, allow_inf_nan=False, description="Longest prefill that is tried, told by FLOPs."
    )
    backend: str = Field("triton", description="Backend of the ops of a prefill.")
    figure: Path | None = Field(None, description="SVG of what the file then holds.")


def efficiency(argv: list[str]) -> int:
    """Measure the cells that a file lacks, the most telling first.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.

    Raises:
        ValueError: An option is not allowed, the file is another machine's, or there is no GPU.
    """
    description = (
        "Time decoding and prompts of the looped 1.3B models and of counterparts without loops on "
        "a GPU, by length and batch, each on its best path, with memory, and the quotient over "
        "the softmax model. Sessions add to one file."
    )
    (options,) = parse("lt2 bench efficiency", argv, description, options=EfficiencyOptions)
    check_file(options.file, "FILE", suffixes=(".json",))
    check_file(options.figure, "--figure", suffixes=(".svg",))
    import torch

    from lt2theory.bench.efficiency import Meter, measure_cells
    from lt2theory.bench.efficiency_cells import ARMS, all_cells
    from lt2theory.bench.efficiency_file import add_rows, left_to_do
    from lt2theory.bench.rates import require_cuda
    from lt2theory.runs.environment import capture

    check_lists(options, arms=ARMS)
    check_backend(options.backend)
    cells = all_cells(options.arms, options.forms, options.phases, options.batches, options.lengths)
    left = left_to_do(cells, options.file)
    require_cuda("efficiency")
    until = time.monotonic() + 60 * options.minutes
    measure = measure_cells(
        left,
        Meter(),
        until=until,
        most_seconds=options.most_seconds,
        steps=options.steps,
        backend=options.backend,
    )
    content = add_rows(
        options.file,
        lambda: measure,
        command=" ".join(["lt2 bench efficiency", *argv]),
        environment=capture(threads=1, device=torch.cuda.get_device_name()),
        told=lambda row: print(_line(row), flush=True),
    )
    if options.figure is not None and content["rows"]:
        _draw(content["rows"], options.figure)
    rest = len(left_to_do(cells, options.file))
    print(f"{options.file}: {len(cells) - rest} of {len(cells)} cells; the same command goes on")
    return DONE


def _line(row: dict[str, Any]) -> str:
    """One row on the screen."""
    where = f"{row['arm']:<9} {row['form']:<15} {row['phase']:<7} "
    where += f"b{row['batch']:<3} {row['length']:>6} "
    if row["ms"] is None:
        return f"{where}{row['reason']}"
    said = f"{row['tokens_per_second']:>10,.0f} tokens/s {row['ms']:>9,.2f} ms "
    said += f"(floor {row['floor_ms']:,.2f}) {row['peak_gib']:.1f} GiB, {row['path']}"
    return where + said + (f"; {row['reason']}" if row["reason"] else "")


def _draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Write the figure of all rows."""
    import pandas as pd

    from lt2theory.report.efficiency import efficiency_figures
    from lt2theory.report.embed import image
    from lt2theory.runs.atomic import write_bytes

    figures = efficiency_figures(pd.DataFrame(rows))
    if figures:
        write_bytes(path, image(next(iter(figures.values())), "svg"))
