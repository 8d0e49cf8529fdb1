"""What the verbs of all kinds of studies share: how sessions end, and how tables are merged."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lt2theory.cli.errors import CHECK_FAILED, DONE, INTERRUPTED, UsageError
from lt2theory.cli.output import check_file

if TYPE_CHECKING:
    import pandas as pd

    from lt2theory.training import Account


def check_minutes(minutes: float | None) -> None:
    """Refuse a length of a session that is none.

    Args:
        minutes: The option; None goes on to the end.

    Raises:
        ValueError: It is not a number above 0.
    """
    if minutes is not None and not 0 < minutes < float("inf"):
        raise ValueError(f"minutes: got {minutes}, allowed are numbers > 0")


def print_ends(rows: Sequence[Mapping[str, Any]], ends: "Mapping[str, Account]") -> None:
    """Print how the cells that ran ended, why others did not begin, and how many are done.

    Args:
        rows: A row a cell, with its `status`.
        ends: By name, the cells of the session.
    """
    for name, end in ends.items():
        if end.state != "waiting" or end.message:
            why = f": {end.message}" if end.message else ""
            print(f"  {name}: {end.state}, {end.device_seconds / 60:.2f} device minutes{why}")
    print(f"{sum(row['status'] == 'done' for row in rows)} of {len(rows)} cells are done")


def print_plan(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a line a cell that runs alone, and what is left in all.

    Args:
        rows: A row a cell, as `lt2theory.experiments.serial.serial_plan` gives them; `needs` names
            the cells that come before it.
    """
    width = max(len(row["cell"]) for row in rows)
    for row in rows:
        needs = f"  needs {', '.join(row['needs'])}" if row.get("needs") else ""
        print(
            f"{row['cell']:<{width}}  {row['status']:<10}  {row['tokens']:>11,} tokens  "
            f"GPU minutes {row['gpu_minutes']:5.2f} (estimated){needs}"
        )
    left = [row for row in rows if row["status"] != "done"]
    minutes = sum(row["gpu_minutes"] for row in left)
    print(f"left: {len(left)} of {len(rows)} cells, {minutes:.0f} GPU minutes (estimated)")


def print_session(rows: Sequence[Mapping[str, Any]], ends: "Mapping[str, Account]") -> None:
    """Print how the cells that ran ended, and what is left by name.

    Args:
        rows: A row a cell, with its `status`.
        ends: By name, the cells of the session.
    """
    print_ends(rows, ends)
    left = [row["cell"] for row in rows if row["status"] != "done"]
    if left:
        print(f"left ({len(left)}): {' '.join(left)}")


def exit_code(rows: Sequence[Mapping[str, Any]], ends: "Mapping[str, Account]") -> int:
    """The exit code of a session.

    Args:
        rows: A row a cell, with its `status`.
        ends: By name, the cells of the session.

    Returns:
        1 if one failed, 0 if all are done, else 130: the same command goes on.
    """
    if any(end.state == "failed" for end in ends.values()):
        return CHECK_FAILED
    return DONE if all(row["status"] == "done" for row in rows) else INTERRUPTED


@dataclass(frozen=True, kw_only=True)
class MergeOptions:
    """What is merged into which table."""

    out: Path
    """The Parquet file of the merged table. If it exists it is merged too."""
    sources: tuple[Path, ...] = field(default=())
    """Folders of studies, or Parquet files of them."""


def merge_tables(
    options: MergeOptions,
    read: "Callable[[Path], pd.DataFrame]",
    merged: "Callable[[list[pd.DataFrame]], pd.DataFrame]",
    what: str,
) -> int:
    """Merge tables into the file of the options, and say how much it holds.

    Args:
        options: The file and the sources.
        read: Reads the table of a source.
        merged: Merges tables.
        what: What has a hash of its own in them, in the plural.

    Returns:
        The exit code.

    Raises:
        UsageError: There is nothing to merge.
    """
    check_file(options.out, "--out", suffixes=(".parquet",))
    if not options.sources:
        raise UsageError("--sources: no value given (folders of studies, or Parquet files)")
    from lt2theory.runs import write_table

    before = [options.out] if options.out.exists() else []
    table = merged([read(path) for path in (*before, *options.sources)])
    write_table(options.out, table)
    size, count = options.out.stat().st_size / 2**20, table["config_hash"].nunique()
    print(f"{options.out}: {count} {what}, {len(table)} rows, {size:.2f} MiB")
    return DONE
