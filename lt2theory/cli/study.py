"""`lt2 curriculum study NAME` and `lt2 curriculum merge`: many cells, in sessions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from lt2theory.cli.errors import DONE
from lt2theory.cli.executors import ExecutorOptions, executor_of
from lt2theory.cli.output import JsonCopy, check_file, check_folder
from lt2theory.cli.parsing import leading_name, parse
from lt2theory.cli.sessions import (
    MergeOptions,
    check_minutes,
    exit_code,
    merge_tables,
    print_ends,
)

if TYPE_CHECKING:
    from lt2theory.experiments.cells import Cells
    from lt2theory.runs import Executor
    from lt2theory.training import Account


@dataclass(frozen=True, kw_only=True)
class StudyOptions:
    """Which cells, where, and for how long."""

    cells: Annotated[tuple[str, ...], tyro.conf.arg(aliases=["--cell"])] = ("*",)
    """Names of cells, at least one, with * for anything, or of arms, for all their seeds."""
    minutes: float | None = None
    """Length of the session. Cells that are expected to end in it begin first; what goes on then
    writes a checkpoint. None goes on to the end. With slurm the time of a job, 60 by default."""
    at_once: int | None = None
    """Cells that share the device, fewer where its memory does not hold them; by default 4 on a GPU
    and 1 on a CPU, where cells would wait for each other. With local the processes, with slurm the
    jobs at a time."""
    device: Literal["cuda", "cpu"] = "cuda"
    """Where to compute. The same cell on another device is another run."""
    out: Path | None = None
    """Folder of the study; by default `runs/study-NAME-DEVICE`. The same command goes on there."""
    dry_run: bool = False
    """Only list the cells with their steps, products and minutes of a GPU. Of what the folder does
    not have, `published` is finished in results/study.parquet; it would be run all the same."""
    overwrite: bool = False
    """Replace the list of a folder that holds a study of other cells; finished runs are kept."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: One is not allowed.
        """
        check_minutes(self.minutes)
        if self.at_once is not None and self.at_once < 1:
            raise ValueError(f"at_once: got {self.at_once}, allowed are whole numbers >= 1")

    @property
    def cells_at_once(self) -> int:
        """Cells that share the device."""
        from lt2theory.experiments.costs import AT_ONCE

        return self.at_once or (AT_ONCE if self.device == "cuda" else 1)


def run(argv: list[str]) -> int:
    """Carry out the cells of a study for a while, or go on where an earlier call stopped.

    Args:
        argv: The arguments after the verb: a study's name, and flags.

    Returns:
        0 if all the cells are done, 1 if some failed, else 130: the same command goes on.
    """
    from lt2theory.experiments.cells import in_order
    from lt2theory.experiments.costs import price_basis
    from lt2theory.experiments.studies import studies
    from lt2theory.experiments.study import chosen, plan, published
    from lt2theory.runs import write_json

    known, usage = studies(), "lt2 curriculum study"
    name, rest = leading_name(argv, known, usage=usage, what="study")
    description = (
        "Carry out the cells of a study, several at a time, in as many calls as it takes: what is "
        f"done is skipped, what is unfinished goes on. STUDY is one of: {', '.join(known)}. Exit "
        "code 130 says that cells are left. --executor hands them to processes, a Ray cluster or "
        "SLURM instead."
    )
    prog = f"{usage} {name}"
    options, spreading, copy = parse(
        prog, rest, description, options=StudyOptions, spreading=ExecutorOptions, copy=JsonCopy
    )
    check_file(copy.json, "--json")
    executor = executor_of(spreading, options)
    root = options.out or Path("runs", f"study-{name}-{options.device}")
    cells = in_order(tuple(cell.on(options.device) for cell in known[name]()))
    wanted = chosen(cells, options.cells)
    if not options.dry_run:
        check_folder(root, "--out")
        ends = _carried_out(cells, wanted, root, options, executor)
    rows = plan(wanted, root, elsewhere=published() if options.dry_run else frozenset())
    if copy.json is not None:
        found = {} if options.dry_run else {name: vars(end) for name, end in ends.items()}
        write_json(copy.json, {"study": name, "cells": rows, "session": found})
    if options.dry_run:
        _print_plan(rows)
        print("What the prices rest on:", *price_basis(wanted), sep="\n  ")
        return DONE
    _print_session(rows, ends)
    print(root)
    return exit_code(rows, ends)


def _carried_out(
    cells: "Cells", wanted: "Cells", root: Path, options: StudyOptions, executor: "Executor | None"
) -> "dict[str, Account]":
    """Carry out cells by an executor, or, without one, in this process for a session."""
    from lt2theory.experiments.study import Session, carry_out
    from lt2theory.experiments.study_spread import carry_out_by
    from lt2theory.runs import TerminalProgress

    progress, overwrite = TerminalProgress(), options.overwrite
    if executor is not None:
        return carry_out_by(executor, cells, wanted, root, overwrite=overwrite, progress=progress)
    seconds = None if options.minutes is None else 60 * options.minutes
    session = Session(options.device, options.cells_at_once, seconds, overwrite)
    return carry_out(cells, wanted, root, session, progress=progress)


def _print_plan(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a line a cell, and what is left in all."""
    left = [row for row in rows if row["status"] != "done"]
    width = max(len(row["cell"]) for row in rows)
    for row in rows:
        minutes = f"{row['gpu_minutes']:.2f}" + (" (estimated)" if row["estimated"] else "")
        print(
            f"{row['cell']:<{width}}  block {row['block']}  {row['status']:<10}  "
            f"{row['steps']:>7} steps (cap {row['step_cap']})  {row['flops']:.1e} FLOPs "
            f"(cap {row['flops_cap']:.1e})  GPU minutes {minutes}"
        )
    guessed = sum(row["estimated"] for row in left)
    print(
        f"left: {len(left)} of {len(rows)} cells, {sum(row['steps'] for row in left)} steps, "
        f"{sum(row['flops'] for row in left):.1e} FLOPs, "
        f"{sum(row['gpu_minutes'] for row in left):.1f} GPU minutes"
        + (f" (estimated for {guessed} of them)" if guessed else "")
    )
    if count := sum(row["status"] == "published" for row in rows):
        print(f"published: {count} of those left are finished in results/study.parquet")


def _print_session(rows: Sequence[Mapping[str, Any]], ends: "Mapping[str, Account]") -> None:
    """Print how the cells that ran ended, and what is left by name."""
    print_ends(rows, ends)
    for status, said in (("unfinished", "begun, to be gone on with"), ("absent", "not begun")):
        names = [row["cell"] for row in rows if row["status"] == status]
        if names:
            print(f"{said} ({len(names)}): {' '.join(names)}")


def merge(argv: list[str]) -> int:
    """Merge the tables of several sessions or machines; doing it twice changes nothing.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.

    Raises:
        UsageError: There is nothing to merge.
    """
    description = (
        "Merge tables of a study from several sessions or machines: of every run, known by the "
        "hash of its configuration, the rows that are furthest on."
    )
    (options,) = parse("lt2 curriculum merge", argv, description, options=MergeOptions)
    from lt2theory.experiments.study_table import merge as merged
    from lt2theory.experiments.study_table import read_study_table

    return merge_tables(options, read_study_table, merged, "runs")
