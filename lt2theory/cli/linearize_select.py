"""`lt2 linearize select STUDENT`: which layers of a hybrid keep softmax."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from lt2theory.cli.errors import DONE
from lt2theory.cli.output import JsonCopy, check_file, check_folder
from lt2theory.cli.parsing import parse
from lt2theory.cli.sessions import check_minutes


@dataclass(frozen=True, kw_only=True)
class SelectOptions:
    """What is selected from, on which text, and where that is kept."""

    student: tyro.conf.Positional[Path]
    """An all-linear student after its alignment: a linearization, or one of its stages."""
    teacher: Path
    """What the student was made of: a Hugging Face checkpoint, a .gguf file, or a run of ours."""
    text: Path
    """A corpus in the teacher's tokens, or a file or folder of text."""
    out: Path
    """Folder of the selection; an interrupted one goes on."""
    minutes: float | None = None
    """Stop after so many minutes; the same command goes on."""
    overwrite: bool = False
    """Start afresh, whatever selection the folder holds."""

    def __post_init__(self) -> None:
        """Refuse what is out of range.

        Raises:
            ValueError: `minutes` is.
        """
        check_minutes(self.minutes)


def run(argv: list[str]) -> int:
    """Choose layers, and print the path of a recipe with them last.

    Args:
        argv: The arguments after the verb.

    Returns:
        The exit code.
    """
    from lt2theory.linearize.selection import SelectionConfig
    from lt2theory.linearize.selectors_compared import RECIPE, select_layers
    from lt2theory.linearize.sources import Sources
    from lt2theory.linearize.teachers import load_teacher
    from lt2theory.linearize.texts import open_text
    from lt2theory.runs import TerminalProgress, write_json
    from lt2theory.training.lm import Execution
    from lt2theory.training.lm.ranks import starts_first

    description = (
        "Restore one layer of an all-linear student to softmax at a time, distil shortly, and rank "
        "layers by the divergence from the teacher, over all loops and several seeds; beside "
        "selectors that need no training. OUT/recipe.json is for lt2 linearize run."
    )
    config, execution, options, copy = parse(
        "lt2 linearize select",
        argv,
        description,
        config=SelectionConfig(),
        execution=Execution(),
        options=SelectOptions,
        copy=JsonCopy,
    )
    check_file(copy.json, "--json")
    check_folder(options.out, "--out")
    progress = TerminalProgress()
    teacher = load_teacher(options.teacher)
    student = load_teacher(options.student, field="student")
    corpus = open_text(
        options.text, options.teacher, options.out.absolute().parent, progress=progress
    )
    summary = select_layers(
        student.model.requires_grad_(True),
        config,
        execution,
        Sources(teacher, corpus),
        folder=options.out,
        overwrite=options.overwrite,
        progress=progress,
        seconds=None if options.minutes is None else 60 * options.minutes,
    )
    if starts_first():  # of several processes one speaks
        if copy.json is not None:
            write_json(copy.json, summary)
        _print(summary)
        print(options.out / RECIPE)
    return DONE


def _print(summary: dict[str, Any]) -> None:
    """Print what each selector chooses, and how often its seeds agree."""
    for name, layers in summary["chosen"].items():
        seeds = summary["chosen_by_seed"].get(name)
        spread = ""
        if seeds:
            same = sum(sorted(one) == sorted(layers) for one in seeds)
            spread = f"; {same} of {len(seeds)} seeds alone choose the same"
        print(f"  {name:<12} {', '.join(map(str, layers))}{spread}")
