"""`lt2 train`: a language model on a prepared corpus, in one process or under torchrun."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lt2theory.cli.errors import CHECK_FAILED, DONE
from lt2theory.cli.output import JsonCopy, check_file, check_folder
from lt2theory.cli.parsing import parse

if TYPE_CHECKING:
    from lt2theory.training.lm import Execution, LmConfig, LmSummary

DEFAULT_PRESET = "byte-1m-full-gdn"


@dataclass(frozen=True, kw_only=True)
class TrainOptions:
    """What is trained on, and where the run is kept."""

    data: Path
    """Folder of the corpus that `lt2 data prepare` wrote."""
    preset: str = DEFAULT_PRESET
    """Named model whose fields the `--model` flags change."""
    recipe: str | None = None
    """Named run (byte-10m-8min), whose model and settings further flags change."""
    out: Path | None = None
    """Folder of the run; by default one below `runs` named after label, seed and configuration."""
    overwrite: bool = False
    """Start afresh, whatever run the folder holds."""


def run(argv: list[str]) -> int:
    """Train a language model, or go on where an interrupted run stopped.

    Args:
        argv: The arguments after the verb.

    Returns:
        0, or 1 if the run diverged.
    """
    from lt2theory.runs import TerminalProgress, run_status, study_run, write_json
    from lt2theory.training.lm import resolve, run_lm
    from lt2theory.training.lm.ranks import starts_first
    from lt2theory.training.text import Corpus

    description = (
        "Train a language model on a corpus. Give --steps or --tokens. 'torchrun "
        "--nproc-per-node N -m lt2theory train ...' shares the work among N processes; the same "
        "command goes on after an interruption, with any number of them."
    )
    start, way = _start(argv)
    config, execution, options, copy = parse(
        "lt2 train",
        argv,
        description,
        config=start,
        execution=way,
        options=TrainOptions,
        copy=JsonCopy,
    )
    check_file(copy.json, "--json")
    check_folder(options.out, "--out")
    config = resolve(config, Corpus(options.data))
    folder = options.out or Path("runs", study_run(config.to_json(), config.identity()).folder)
    before = run_status(folder) == "done" and not options.overwrite
    summary = run_lm(
        config,
        execution,
        data=options.data,
        folder=folder,
        overwrite=options.overwrite,
        progress=TerminalProgress(),
    )
    if starts_first():  # of several processes one speaks
        if copy.json is not None:
            write_json(copy.json, summary.model_dump(mode="json"))
        _print(summary, f"{folder}: done before" if before else str(folder))
    return CHECK_FAILED if summary.status == "diverged" else DONE


def _start(argv: list[str]) -> "tuple[LmConfig, Execution]":
    """What the recipe and the preset that the arguments name give the flags as defaults."""
    from lt2theory.models import find_preset
    from lt2theory.training.lm import Execution, LmConfig, find_recipe

    recipe, preset = _named(argv, "--recipe"), _named(argv, "--preset")
    if recipe is None:
        model = find_preset(preset or DEFAULT_PRESET).config
        return LmConfig.model_construct(model=model), Execution()
    found = find_recipe(recipe)
    changes = {} if preset is None else {"model": find_preset(preset).config}
    return found.config.model_copy(update=changes), found.execution


def _named(argv: list[str], flag: str) -> str | None:
    """What follows a flag, the last time that it is given."""
    name = None
    for word, following in zip(argv, [*argv, None][1:], strict=True):
        given, equals, value = word.partition("=")
        if given == flag:
            name = value if equals else following
    return name


def _print(summary: "LmSummary", headline: str) -> None:
    """Print how the run went."""
    loss = "" if summary.loss is None else f", loss {summary.loss:.4f}"
    print(
        f"{headline}: {summary.status}, {summary.steps} steps, {summary.tokens} tokens, "
        f"{summary.parameters} parameters{loss}"
    )
    if summary.held_out is not None:
        found = summary.held_out
        print(f"  held out: {found.bits_per_byte:.4f} bits per byte, {found.documents} documents")
    if summary.not_finite or summary.spikes:
        print(
            f"  {summary.not_finite} steps were not finite; {summary.spikes} spikes of the loss, "
            f"{summary.skipped_spikes} of them skipped"
        )
    print(f"  {summary.timing.tokens_per_second:.0f} tokens a second in training")
