"""Ranks of the loops' transitions in the study's trained word-problem models.

    python -m lt2theory.experiments.study_ranks runs/study-loops

measures every finished model that was not measured before, on the CPU, leaves `ranks.json` in its
run's folder, and writes the study's table anew, with rows of the split `rank`.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from lt2theory.experiments.measures import (
    held_out_trace,
    last_loop_beyond_token,
    transition_ranks,
)
from lt2theory.experiments.study_cells import loops
from lt2theory.experiments.study_rank_rows import ERASING, FILE, LENGTH
from lt2theory.experiments.study_table import TABLE, study_table
from lt2theory.runs import RunFolder, Study, write_json, write_table


def measured(folder: Path) -> dict[str, float]:
    """Ranks of one model's transitions over all its loops, in float64.

    Args:
        folder: A finished curriculum run.

    Returns:
        `largest_rank` over tokens and heads; medians `entropy_rank` (the effective rank),
        `ideal_entropy_rank` (that of orthogonal keys) and `beta`; `independent`, the share with
        linearly independent keys; `transitions`, how many there are; `beyond_token`, the median
        over heads of the share of the last loop's erasure that its token does not explain.
    """
    trace = held_out_trace(folder, LENGTH)
    table = transition_ranks(trace)
    last = table[table["num_loops"] == table["num_loops"].max()]
    medians = last[["entropy_rank", "ideal_entropy_rank", "beta"]].median()
    return {
        "largest_rank": float(last["product_rank"].max()),
        **{str(name): float(value) for name, value in medians.items()},
        "independent": float(last["keys_independent"].mean()),
        "transitions": float(len(last)),
        "beyond_token": last_loop_beyond_token(trace),
    }


def measure(runs: Sequence[RunFolder]) -> int:
    """Measure the models that can be and have not been.

    Args:
        runs: Runs of a study.

    Returns:
        How many were measured now.
    """
    found = 0
    for run in runs:
        if is_measurable(run):
            write_json(run.path / FILE, measured(run.path))
            found += 1
    return found


def is_measurable(run: RunFolder) -> bool:
    """Whether a run's model can be measured and has not been.

    Args:
        run: A run of the study.

    Returns:
        True for a finished word problem by a mixer that erases, whose weights are there.
    """
    config = run.config
    return (
        run.status == "done"
        and config["task"]["name"] == "group_word"
        and config["model"]["pattern"] in ERASING
        and run.summary()["status"] != "diverged"
        and bool(run.checkpoints())
        and not (run.path / FILE).exists()
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure the models of the study `loops` and write its table.

    Args:
        arguments: The study's folder; the process's by default.

    Returns:
        The exit code: 2 without a folder.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    if len(given) != 1:
        sys.stderr.write("usage: python -m lt2theory.experiments.study_ranks STUDY\n")
        return 2
    root = Path(given[0])
    runs = Study(root).run_folders()
    count = measure(runs)
    devices = {run.config["device"] for run in runs}
    cells = tuple(cell.on(device) for device in sorted(devices) for cell in loops())
    write_table(root / TABLE, study_table(cells, root))
    sys.stdout.write(f"{root}: {count} models measured\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
