"""`lt2 linearize study NAME` and `lt2 linearize merge`: the studies, in sessions of minutes."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from lt2theory.cli.errors import DONE, UsageError
from lt2theory.cli.output import JsonCopy, check_file, check_folder
from lt2theory.cli.parsing import leading_name, parse
from lt2theory.cli.sessions import (
    MergeOptions,
    check_minutes,
    exit_code,
    merge_tables,
    print_plan,
    print_session,
)

if TYPE_CHECKING:
    from lt2theory.experiments.linearization.cells import LinearCells
    from lt2theory.training import Account


@dataclass(frozen=True, kw_only=True)
class LinearStudyOptions:
    """Which cells, on what, and for how long."""

    cells: Annotated[tuple[str, ...], tyro.conf.arg(aliases=["--cell"])] = ("*",)
    """Names of cells, at least one, with * for anything, or of arms, for all their seeds. What they
    need is carried out too."""
    text: Path | None = None
    """A file or folder of text, or a corpus in the right tokens."""
    teacher: Path | None = None
    """SmolLM2-135M-Instruct: a .gguf file or a folder, for mixers, starts and instruction."""
    chat: Path | None = None
    """Conversations (.jsonl with `messages`) for instruction; by default made of the text."""
    tokens: int | None = None
    """Budget of a cell, of the smallest one in sizes; none is the study's own."""
    minutes: float | None = None
    """Length of the session: cells that are expected to end in it begin first, and what trains when
    it is over writes a checkpoint. None goes on to the end."""
    device: Literal["cuda", "cpu"] = "cuda"
    """Where to compute."""
    cuda_graph: bool = True
    """On a GPU, replay every training step as CUDA graphs."""
    out: Path | None = None
    """Folder of the study; by default `runs/linearize-NAME`. The same command goes on there."""
    dry_run: bool = False
    """Only list the cells with their tokens and minutes of a GPU."""
    overwrite: bool = False
    """Replace the list of a folder that holds a study of other cells; finished runs are kept."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            ValueError: One is not allowed.
        """
        check_minutes(self.minutes)
        if self.tokens is not None and self.tokens < 1:
            raise ValueError(f"tokens: got {self.tokens}, allowed are whole numbers >= 1")


def run(argv: list[str]) -> int:
    """Carry out the cells of a study for a while, or go on where an earlier call stopped.

    Args:
        argv: The arguments after the verb: a study's name, and flags.

    Returns:
        0 if all the cells are done, 1 if some failed, else 130: the same command goes on.
    """
    from lt2theory.experiments.linearization.session import chosen_cells, linear_plan
    from lt2theory.experiments.linearization.studies import names, study_cells
    from lt2theory.runs import write_json

    usage = "lt2 linearize study"
    name, rest = leading_name(argv, names(), usage=usage, what="study")
    description = (
        "Carry out the cells of a study of linearization in as many calls as it takes: what is "
        f"done is skipped, what is unfinished goes on. STUDY is one of: {', '.join(names())}. Exit "
        "code 130 says that cells are left."
    )
    options, copy = parse(
        f"{usage} {name}", rest, description, options=LinearStudyOptions, copy=JsonCopy
    )
    check_file(copy.json, "--json")
    root = options.out or Path("runs", f"linearize-{name}")
    cells = study_cells(name, tokens=options.tokens)
    wanted = chosen_cells(cells, options.cells)
    ends: dict[str, Account] = {}
    if not options.dry_run:
        check_folder(root, "--out")
        ends = _carried_out(cells, wanted, root, options)
    rows = linear_plan(wanted, root)
    if copy.json is not None:
        write_json(
            copy.json,
            {
                "study": name,
                "cells": rows,
                "session": {key: vars(end) for key, end in ends.items()},
            },
        )
    if options.dry_run:
        print_plan(rows)
        return DONE
    print_session(rows, ends)
    print(root)
    return exit_code(rows, ends)


def _carried_out(
    cells: "LinearCells", wanted: "LinearCells", root: Path, options: LinearStudyOptions
) -> "dict[str, Account]":
    """Carry out cells in this process."""
    from lt2theory.experiments.linearization.materials import Materials
    from lt2theory.experiments.linearization.session import carry_out_linear
    from lt2theory.experiments.serial import SerialSession
    from lt2theory.runs import TerminalProgress
    from lt2theory.training.lm import Execution

    if options.text is None:
        raise UsageError("--text: no value given (a file or folder of text, or a corpus)")
    if options.teacher is None and (real := [cell.name for cell in wanted if cell.is_real]):
        raise UsageError(f"--teacher: no value given, which {len(real)} cells need ({real[0]}, ..)")
    execution = Execution(
        device=options.device, cuda_graph=options.cuda_graph and options.device == "cuda"
    )
    materials = Materials(
        root, options.text, options.teacher, options.chat, execution, TerminalProgress()
    )
    seconds = None if options.minutes is None else 60 * options.minutes
    session = SerialSession(seconds, options.overwrite)
    return carry_out_linear(cells, wanted, session, materials)


def merge(argv: list[str]) -> int:
    """Merge the tables of several sessions, studies or machines; twice changes nothing.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.

    Raises:
        UsageError: There is nothing to merge.
    """
    description = (
        "Merge tables of studies of linearization: of every cell, known by the hash of all that "
        "decides it, the rows that are furthest on."
    )
    (options,) = parse("lt2 linearize merge", argv, description, options=MergeOptions)
    from lt2theory.experiments.linearization.table import merge_linear, read_linear_table

    return merge_tables(options, read_linear_table, merge_linear, "cells")
