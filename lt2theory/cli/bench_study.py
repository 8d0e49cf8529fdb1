"""`lt2 bench study`: curriculum steps a minute of cells that share a GPU."""

from lt2theory.cli.bench_options import StudyOptions
from lt2theory.cli.bench_output import check_lists, publish
from lt2theory.cli.errors import DONE
from lt2theory.cli.output import JsonCopy, check_file
from lt2theory.cli.parsing import parse


def study(argv: list[str]) -> int:
    """Count curriculum steps a minute of cells that share a GPU.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.

    Raises:
        ValueError: A workload or a number is not allowed, or there is no GPU.
    """
    description = (
        "Count curriculum steps a minute on a GPU: cells of a study side by side, as CUDA graphs "
        "with batches made ahead, beside one plain run of FLA layers."
    )
    options, copy = parse("lt2 bench study", argv, description, options=StudyOptions, copy=JsonCopy)
    check_file(copy.json, "--json")
    from lt2theory.bench.study import WORKLOADS, bench_study

    check_lists(options, workloads=WORKLOADS)
    table = bench_study(options.workloads, at_once=options.at_once, seconds=options.seconds)
    publish(table, copy.json, threads=1)
    return DONE
