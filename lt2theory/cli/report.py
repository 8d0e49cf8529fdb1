"""`lt2 report PATH`: the HTML report of a run, a study, a linearization or an evaluation."""

from dataclasses import dataclass
from pathlib import Path

import tyro

from lt2theory.cli.errors import DONE, UsageError
from lt2theory.cli.output import check_file
from lt2theory.cli.parsing import parse


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """What is reported, and where to."""

    path: tyro.conf.Positional[Path]
    """Folder of a run, a study, a linearization, a selection of layers or an evaluation."""
    out: Path | None = None
    """HTML file; report.html in the folder by default, which is written anew each time."""
    overwrite: bool = False
    """Replace a file of that name that is there."""


def run(argv: list[str]) -> int:
    """Write one self-contained HTML file, and print its path alone.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.

    Raises:
        UsageError: If `--out` exists and `--overwrite` was not given.
    """
    description = "Write one self-contained HTML file about a run or a study, and print its path."
    (options,) = parse("lt2 report", argv, description, options=ReportOptions)
    check_file(options.out, "--out", suffixes=(".html",))
    if options.out is not None and options.out.exists() and not options.overwrite:
        raise UsageError(f"--out: {str(options.out)!r} exists (--overwrite replaces it)")
    from lt2theory.report.dispatch import report_path

    print(report_path(options.path, output=options.out))
    return DONE
