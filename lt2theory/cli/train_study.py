"""`lt2 train study NAME`, `lt2 train merge`: language models compared, in sessions of minutes."""

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
    from lt2theory.experiments.language.cells import LanguageCells
    from lt2theory.training import Account


@dataclass(frozen=True, kw_only=True)
class TrainStudyOptions:
    """Which cells, on what, and for how long."""

    cells: Annotated[tuple[str, ...], tyro.conf.arg(aliases=["--cell"])] = ("*",)
    """Names of cells, at least one, with * for anything, or of arms, for all their seeds."""
    data: Path | None = None
    """Folder of the corpus that `lt2 data prepare` wrote, in bytes."""
    minutes: float | None = None
    """Length of the session: cells that are expected to end in it begin first, and what trains when
    it is over writes a checkpoint. None goes on to the end."""
    device: Literal["cuda", "cpu"] = "cuda"
    """Where to compute."""
    cuda_graph: bool = True
    """On a GPU, replay every training step as CUDA graphs."""
    checkpoint_every: int = 400
    """Steps between two checkpoints."""
    out: Path | None = None
    """Folder of the study; by default `runs/train-NAME`. The same command goes on there."""
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
        if self.checkpoint_every < 1:
            raise ValueError(
                f"checkpoint_every: got {self.checkpoint_every}, allowed are whole numbers >= 1"
            )


def run(argv: list[str]) -> int:
    """Carry out the cells of a study for a while, or go on where an earlier call stopped.

    Args:
        argv: The arguments after the verb: a study's name, and flags.

    Returns:
        0 if all the cells are done, 1 if some failed, else 130: the same command goes on.
    """
    from lt2theory.experiments.language import arms
    from lt2theory.experiments.language.session import language_plan
    from lt2theory.experiments.study import chosen
    from lt2theory.runs import write_json

    usage = "lt2 train study"
    name, rest = leading_name(argv, (arms.STUDY,), usage=usage, what="study")
    description = (
        "Train and measure the language models of a study in as many calls as it takes: what is "
        f"done is skipped, what is unfinished goes on. STUDY is: {arms.STUDY}. Exit code 130 says "
        "that cells are left."
    )
    options, copy = parse(
        f"{usage} {name}", rest, description, options=TrainStudyOptions, copy=JsonCopy
    )
    check_file(copy.json, "--json")
    root = options.out or Path("runs", f"train-{name}")
    cells = arms.language_cells()
    wanted = chosen(cells, options.cells)
    ends: dict[str, Account] = {}
    if not options.dry_run:
        check_folder(root, "--out")
        ends = _carried_out(cells, wanted, root, options)
    rows = language_plan(wanted, root)
    if copy.json is not None:
        session = {key: vars(end) for key, end in ends.items()}
        write_json(copy.json, {"study": name, "cells": rows, "session": session})
    if options.dry_run:
        print_plan(rows)
        return DONE
    print_session(rows, ends)
    print(root)
    return exit_code(rows, ends)


def _carried_out(
    cells: "LanguageCells", wanted: "LanguageCells", root: Path, options: TrainStudyOptions
) -> "dict[str, Account]":
    """Carry out cells in this process."""
    from lt2theory.experiments.language.carry import Materials
    from lt2theory.experiments.language.session import carry_out_language
    from lt2theory.experiments.serial import SerialSession
    from lt2theory.runs import TerminalProgress
    from lt2theory.training.lm import Execution
    from lt2theory.training.text import Corpus

    if options.data is None:
        raise UsageError("--data: no value given (the folder of a corpus)")
    execution = Execution(
        device=options.device,
        cuda_graph=options.cuda_graph and options.device == "cuda",
        checkpoint_every=options.checkpoint_every,
    )
    materials = Materials(root, Corpus(options.data), execution, TerminalProgress())
    seconds = None if options.minutes is None else 60 * options.minutes
    session = SerialSession(seconds, options.overwrite)
    return carry_out_language(cells, wanted, session, materials)


def merge(argv: list[str]) -> int:
    """Merge the tables of several sessions or machines; twice changes nothing.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.

    Raises:
        UsageError: There is nothing to merge.
    """
    description = (
        "Merge tables of studies of language models: of every cell, known by the hash of all that "
        "decides it, the rows that are furthest on."
    )
    (options,) = parse("lt2 train merge", argv, description, options=MergeOptions)
    from lt2theory.experiments.language.table import merge_language, read_language_table

    return merge_tables(options, read_language_table, merge_language, "cells")
