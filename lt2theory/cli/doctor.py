"""`lt2 doctor`: which backends are right on this machine, measured."""

import os
from pathlib import Path

from pydantic import Field

from lt2theory.cli.errors import CHECK_FAILED, DONE, UsageError
from lt2theory.cli.output import JsonCopy, check_files
from lt2theory.cli.parsing import parse, refuse_empty
from lt2theory.fields import Frozen

IMPORTS: tuple[str, ...] = ()
"""Modules that the measuring processes import first; tests plant faulty backends through them."""


class DoctorOptions(Frozen):
    """What is measured, and how long it may take."""

    quick: bool = Field(
        False,
        description="The default: heads of width 64, one odd length, two dtypes on a GPU, and the "
        "first configuration of a kernel that runs instead of the fastest; a few minutes.",
    )
    full: bool = Field(
        False,
        description="Widths 16 to 128, three dtypes, four lengths, and kernels as tuned; may take "
        "hours on a GPU, so give --state too.",
    )
    state: Path | None = Field(
        None, description="File of finished cases, from which the same command goes on."
    )
    mixers: tuple[str, ...] = Field((), description="Mixers; all by default.")
    backends: tuple[str, ...] = Field((), description="Backends; all by default.")
    device: str | None = Field(None, description="cpu, cuda or cuda:N; a GPU where there is one.")
    limit: float | None = Field(
        None,
        gt=0,
        allow_inf_nan=False,
        description="Seconds a case may take, compiling included, before it counts as hung; 120 by "
        "default, and 900 with --full.",
    )
    workers: int | None = Field(
        None,
        ge=1,
        description="Processes at a time; by default 1 on a CPU, and on a GPU, where "
        "compiling is most of the work, half as many as cores, at most 8.",
    )


def run(argv: list[str]) -> int:
    """Measure, and say what to trust, install and avoid.

    Args:
        argv: The arguments after the verb.

    Returns:
        0 if nothing was wrong, crashed or hung, else 1; a refusal of a backend is no failure.

    Raises:
        UsageError: A file cannot be written or is named twice, or both --quick and --full are
            asked for.
        KeyboardInterrupt: With the way to go on.
    """
    description = (
        "Run every mixer's op on every backend of this machine and compare values and gradients "
        "with the reference in float64. The exit code is 1 if something is wrong, crashes or hangs."
    )
    refuse_empty(argv, "--mixers", "--backends")
    options, copy = parse("lt2 doctor", argv, description, options=DoctorOptions, copy=JsonCopy)
    if options.quick and options.full:
        raise UsageError("--quick: not together with --full")
    check_files({"--state": options.state, "--json": copy.json})
    try:
        return _run(options, copy.json)
    except KeyboardInterrupt:
        how = "the same command" if options.state else "with --state FILE the same command"
        raise KeyboardInterrupt(f"interrupted; {how} goes on where it was") from None


def _run(options: DoctorOptions, json: Path | None) -> int:
    """Measure and print as it goes."""
    from lt2theory.bench.doctor.advice import advise
    from lt2theory.bench.doctor.kernels.text import (
        kernel_head,
        kernel_rows,
        kernel_summary,
        refused_lines,
    )
    from lt2theory.bench.doctor.run import Doctor, Settings, default_device
    from lt2theory.bench.doctor.text import (
        OutcomeTable,
        advice_lines,
        environment_lines,
        served_lines,
        summary_line,
    )
    from lt2theory.runs import write_json

    device = options.device or default_device()
    workers = 1 if device == "cpu" else max(1, min(8, (os.cpu_count() or 1) // 2))
    settings = Settings(
        device=device,
        full=options.full,
        mixers=options.mixers,
        backends=options.backends,
        limit=options.limit or (900.0 if options.full else 120.0),
        workers=options.workers or workers,
        state=options.state,
        imports=IMPORTS,
    )
    doctor, table = Doctor(settings), OutcomeTable()
    _print([*environment_lines(doctor.environment), ""])
    served = doctor.served()
    _print([*served_lines(served), "", *table.head(len(doctor.cases), full=options.full)])
    for outcome in doctor.outcomes():
        _print(table.rows(outcome))
    kernels = []
    for number, kernel in enumerate(doctor.kernels()):
        kernels.append(kernel)
        if kernel.verdict != "refused":
            head = [] if number else ["", *kernel_head(len(doctor.kernel_checks))]
            _print([*head, *kernel_rows(kernel)])
    _print(refused_lines(kernels))
    diagnosis = doctor.diagnosis(served, kernels)
    advice = advise(diagnosis)
    summary = [summary_line(diagnosis.outcomes), *([kernel_summary(kernels)] if kernels else [])]
    _print([*summary, "", *advice_lines(advice)])
    if json is not None:
        write_json(json, {**diagnosis.to_json(), "advice": list(advice)})
    return DONE if diagnosis.healthy else CHECK_FAILED


def _print(lines: list[str]) -> None:
    """Print at once, also into a pipe."""
    for line in lines:
        print(line, flush=True)
