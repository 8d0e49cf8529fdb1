"""`lt2 demo`: paired experiments on a CPU in minutes, and their report."""

import sys
from dataclasses import dataclass
from pathlib import Path

from lt2theory.cli.errors import CHECK_FAILED, DONE, one_line
from lt2theory.cli.output import JsonCopy, check_file, check_folder
from lt2theory.cli.parsing import parse


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """Where the demo is kept."""

    out: Path = Path("runs", "demo")
    """Folder of the demo's runs and of its report: new, empty or an earlier demo's."""
    fresh: bool = False
    """Start over: remove what an earlier demo left in the folder, and nothing else."""


def run(argv: list[str]) -> int:
    """Run the demo, or find it done before; the last line is the path of its report.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.
    """
    description = (
        "Train small models of which theory, or where marked experience, predicts the "
        "outcome, and write one self-contained HTML report. The last line is its path."
    )
    options, copy = parse("lt2 demo", argv, description, options=DemoOptions, copy=JsonCopy)
    check_file(copy.json, "--json")
    check_folder(options.out, "--out")
    from lt2theory.experiments.demo import run_demo
    from lt2theory.runs import StudyError, TerminalProgress, write_json

    try:
        demo = run_demo(options.out, fresh=options.fresh, progress=TerminalProgress())
    except StudyError as error:
        print(f"lt2: error: {one_line(error)}", file=sys.stderr)
        return CHECK_FAILED
    if copy.json is not None:
        rows = [vars(row) for row in demo.predictions]
        write_json(copy.json, {"report": str(demo.report), "predictions": rows})
    if demo.done_before:
        print("done before")
    print(demo.report)
    return DONE
