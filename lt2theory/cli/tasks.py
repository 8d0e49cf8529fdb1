"""`lt2 tasks list|show|export`: the tasks without the harness."""

import dataclasses
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import tasks
from lt2theory.cli.errors import DONE, UsageError
from lt2theory.cli.output import check_file
from lt2theory.cli.parsing import leading_name, parse
from tasks.export import card_path


@dataclass(frozen=True)
class ListOptions:
    """There is nothing to choose."""


@dataclass(frozen=True, kw_only=True)
class ShowOptions:
    """Which examples are drawn."""

    stage: int | None = None
    """Difficulty to draw from; the task's first by default."""
    split: Literal["train", "eval", "test"] = "train"
    """Split to draw from; the examples of eval and test are distinct."""
    seed: int = 0
    """Seed of the stream of batches."""
    index: int = 0
    """Which batch of the stream."""
    size: int = 1
    """How many examples."""

    def draw(self) -> dict[str, Any]:
        """Return the arguments that name a batch, but for the stage."""
        return {"split": self.split, "seed": self.seed, "index": self.index, "size": self.size}


@dataclass(frozen=True, kw_only=True)
class ExportOptions(ShowOptions):
    """Which examples are written, and where."""

    out: Path
    """File to write, ending in .parquet or .npz; a data card is written beside it."""
    size: int = 1024
    """How many examples."""
    replace: bool = False
    """Replace a file that is there (`--overwrite` is a knob of `mqar`)."""


def list_tasks(argv: list[str]) -> int:
    """Print every task with its stages and knobs.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.
    """
    parse("lt2 tasks list", argv, "Print every task with its stages and knobs.", none=ListOptions)
    for name, kind in tasks.catalogue().items():
        summary = (inspect.getdoc(kind) or "").split("\n")[0]
        knobs = [f"{knob.name}={knob.default!r}" for knob in dataclasses.fields(kind)]
        print(f"{name}: {summary}")
        print(f"  stages {' '.join(map(str, tasks.create(name).stages))}")
        print(f"  knobs  {', '.join(knobs) or 'none'}")
    return DONE


def show(argv: list[str]) -> int:
    """Print decoded examples of a task with their answers, and its floors.

    Args:
        argv: The arguments after the verb: a task's name, its knobs, and what to draw.

    Returns:
        The exit code.
    """
    description = "Print decoded examples of a task with their answers, and its floors."
    task, options = _task_and(ShowOptions, "lt2 tasks show", argv, description)
    stage = task.stages[0] if options.stage is None else options.stage
    batch = task.batch(stage=stage, **options.draw())
    print(f"{task.name}, stage {stage}: {task.sequence_length(stage)} tokens of {task.vocab_size}")
    print(task.definition)
    print("Below, token[label]: the label in brackets is the answer due at that token.")
    for row in range(options.size):
        print(f"\n{task.describe(batch, row)}")
    print("\nfloors at the scored positions:")
    for name, accuracy in task.floors(stage).items():
        print(f"  {name:<24} {accuracy:.4f}")
    return DONE


def export(argv: list[str]) -> int:
    """Write examples of a task to a file, with a data card beside it.

    Args:
        argv: The arguments after the verb: a task's name, its knobs, what to draw, and where to.

    Returns:
        The exit code.

    Raises:
        UsageError: If the file exists and `--replace` was not given.
    """
    description = "Write examples of a task to Parquet or .npz, with a data card beside them."
    task, options = _task_and(ExportOptions, "lt2 tasks export", argv, description)
    check_file(options.out, "--out", suffixes=(".parquet", ".npz"))
    check_file(card_path(options.out), "--out")
    if options.out.exists() and not options.replace:
        raise UsageError(f"--out: {str(options.out)!r} exists (--replace replaces it)")
    stage = task.stages[0] if options.stage is None else options.stage
    for path in tasks.export(task, options.out, stage=stage, **options.draw()):
        print(path)
    return DONE


def _task_and(options: type, usage: str, argv: list[str], description: str) -> tuple[Any, Any]:
    """Return the task that the arguments name, with its knobs, and the other options."""
    catalogue = tasks.catalogue()
    name, rest = leading_name(argv, catalogue, usage=usage, what="task")
    parts = parse(f"{usage} {name}", rest, description, task=catalogue[name], options=options)
    return parts[0], parts[1]
