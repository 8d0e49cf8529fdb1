"""`lt2 linearize run`: a pretrained softmax model into one with linear-time mixers."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lt2theory.cli.errors import CHECK_FAILED, DONE, UsageError
from lt2theory.cli.output import JsonCopy, check_file, check_folder
from lt2theory.cli.parsing import check_seed, parse
from lt2theory.cli.sessions import check_minutes

if TYPE_CHECKING:
    from lt2theory.linearize.divergence import Recovery
    from lt2theory.linearize.recipe import Recipe
    from lt2theory.linearize.results import LinearizeSummary


@dataclass(frozen=True, kw_only=True)
class LinearizeOptions:
    """What is linearized, on which text, and where that is kept."""

    teacher: Path
    """A Hugging Face checkpoint, a .gguf file, or a run of lt2 train."""
    text: Path
    """A corpus that `lt2 data prepare` wrote with the teacher's tokenizer, or a file or folder of
    text, which is prepared so first."""
    chat: Path | None = None
    """Conversations (.jsonl with `messages`), for stages that read them."""
    cache: Path | None = None
    """Folder for what the teacher says, for stages with `top_k`: runs on the same windows share
    it."""
    out: Path | None = None
    """Folder of the linearization; by default one below `runs` named after recipe and teacher."""
    minutes: float | None = None
    """Stop after so many minutes with a checkpoint; the same command goes on."""
    resume: bool = True
    """Go on where a linearization in the folder stopped; with --no-resume such a folder is
    refused."""
    overwrite: bool = False
    """Start afresh, whatever linearization the folder holds."""
    tokens: int | None = None
    """Tokens of all stages together, for a named recipe."""
    seed: int | None = None
    """Seed, in place of the recipe's."""

    def __post_init__(self) -> None:
        """Refuse what is out of range.

        Raises:
            ValueError: `minutes` or `seed` is.
        """
        check_minutes(self.minutes)
        check_seed(self.seed)


def run(argv: list[str]) -> int:
    """Linearize a teacher by a recipe, or go on where an interrupted run stopped.

    Args:
        argv: The arguments after the verb.

    Returns:
        0, or 1 if a stage diverged.

    Raises:
        UsageError: The folder holds an unfinished linearization, and is not to be gone on with.
    """
    from lt2theory.linearize.engine import run_recipe
    from lt2theory.linearize.sources import Sources
    from lt2theory.linearize.teachers import load_teacher
    from lt2theory.linearize.texts import open_text
    from lt2theory.runs import TerminalProgress, run_status, write_json
    from lt2theory.training.lm import Execution
    from lt2theory.training.lm.ranks import starts_first

    name, rest = _recipe_name(argv)
    execution, options, copy = parse(
        "lt2 linearize run RECIPE",
        rest,
        "Linearize a teacher by a recipe: its stages in order, each resumable. 'torchrun "
        "--nproc-per-node N -m lt2theory linearize run ...' shares the work among N processes.",
        execution=Execution(),
        options=LinearizeOptions,
        copy=JsonCopy,
    )
    check_file(copy.json, "--json")
    check_folder(options.out, "--out")
    check_folder(options.cache, "--cache")
    recipe = _recipe(name, options)
    folder = options.out or Path("runs", f"{recipe.name}-{options.teacher.stem}-{recipe.seed}")
    status = run_status(folder)
    if status == "unfinished" and not (options.resume or options.overwrite):
        raise UsageError(f"--no-resume: {folder} holds an unfinished linearization")
    progress = TerminalProgress()
    teacher = load_teacher(options.teacher)
    corpus = open_text(options.text, options.teacher, folder.parent, progress=progress)
    summary = run_recipe(
        recipe,
        execution,
        Sources(teacher, corpus, options.chat, options.cache),
        folder=folder,
        overwrite=options.overwrite,
        progress=progress,
        seconds=None if options.minutes is None else 60 * options.minutes,
    )
    if starts_first():  # of several processes one speaks
        if copy.json is not None:
            write_json(copy.json, summary.model_dump(mode="json"))
        before = status == "done" and not options.overwrite
        _print(summary, f"{folder}: done before" if before else str(folder))
    return CHECK_FAILED if summary.status == "diverged" else DONE


def _recipe_name(argv: list[str]) -> tuple[str, list[str]]:
    """Take the recipe off the front of the arguments, or print the help where that is asked for."""
    from lt2theory.linearize.recipe_a import presets

    names = ", ".join(presets())
    if argv[:1] in (["-h"], ["--help"]):
        print(
            "usage: lt2 linearize run RECIPE --teacher T --text F [OPTIONS]\n\n"
            f"RECIPE: a .toml or .json file, or one of {names}\n\n"
            "lt2 linearize run tiny --help explains all options."
        )
        raise SystemExit(0)
    if not argv or argv[0].startswith("-"):
        raise UsageError(f"RECIPE: none given (a .toml or .json file, or one of {names})")
    return argv[0], argv[1:]


def _recipe(name: str, options: LinearizeOptions) -> "Recipe":
    """The recipe that is meant, with the seed that is asked for."""
    from lt2theory.linearize.recipe import Recipe, read_recipe
    from lt2theory.linearize.recipe_a import preset

    if Path(name).suffix in (".toml", ".json"):
        if options.tokens is not None:
            raise UsageError("--tokens: is not allowed with a file (its stages say how long)")
        found = read_recipe(Path(name))
    else:
        found = preset(name, tokens=options.tokens)
    if options.seed is None:
        return found
    return Recipe.model_validate(found.model_dump() | {"seed": options.seed})


def _print(summary: "LinearizeSummary", headline: str) -> None:
    """Print how near the student came to its teacher, stage by stage."""
    print(
        f"{headline}: {summary.status}, {summary.teacher} -> {summary.pattern}, "
        f"{summary.tokens} tokens, {summary.parameters} parameters"
    )
    _print_recovery("before", summary.start)
    for stage in summary.stages:
        loss = "" if stage.run.loss is None else f", loss {stage.run.loss:.4f}"
        print(
            f"  {stage.name}: {stage.run.steps} steps{loss}, "
            f"{stage.run.timing.tokens_per_second:.0f} tokens a second"
        )
        _print_recovery(f"after {stage.name}", stage.recovery)


def _print_recovery(when: str, found: "Recovery | None") -> None:
    if found is not None:
        print(
            f"  {when}: {found.kl:.4f} nats from the teacher, loss {found.loss:.4f} (teacher "
            f"{found.teacher_loss:.4f}), agreement {100 * found.agreement:.1f} %"
        )
