"""`lt2 curriculum run [RECIPE]`: train a model up the stages of a task."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lt2theory.cli.errors import DONE
from lt2theory.cli.output import JsonCopy, check_file, check_files, check_folder
from lt2theory.cli.parsing import leading_name, parse

if TYPE_CHECKING:
    from lt2theory.training import CurriculumSummary


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Where the run is kept."""

    out: Path | None = None
    """Folder of the run; by default one below `runs` named after label, seed and configuration."""
    overwrite: bool = False
    """Start afresh, whatever run the folder holds."""


def run(argv: list[str]) -> int:
    """Train a model up the stages of a task, or go on where an interrupted run stopped.

    Args:
        argv: The arguments after the verb: a recipe's name, and flags that change its fields.

    Returns:
        The exit code.
    """
    from lt2theory.experiments.recipes import recipes
    from lt2theory.runs import TerminalProgress, run_status, study_run, write_json
    from lt2theory.training import resolve, run_curriculum

    known = recipes()
    usage, first = "lt2 curriculum run", next(iter(known))
    name, rest = leading_name(argv, known, usage=usage, what="recipe", default=first)
    description = (
        "Train a model up the stages of a task: each until it is solved, then one test. "
        f"RECIPE, a name in front of the options, is one of: {', '.join(known)} "
        f"(these are the defaults of {name})."
    )
    prog = f"{usage} {name}" if rest != argv else f"{usage} [RECIPE]"
    config, options, copy = parse(
        prog, rest, description, config=known[name](), options=RunOptions, copy=JsonCopy
    )
    check_file(copy.json, "--json")
    check_folder(options.out, "--out")
    config = resolve(config)
    folder = options.out or Path("runs", study_run(config.to_json(), config.identity()).folder)
    before = run_status(folder) == "done" and not options.overwrite
    summary = run_curriculum(
        config, folder, overwrite=options.overwrite, progress=TerminalProgress()
    )
    if copy.json is not None:
        write_json(copy.json, summary.model_dump(mode="json"))
    _print(summary, f"{folder}: done before" if before else str(folder))
    return DONE


def _print(summary: "CurriculumSummary", headline: str) -> None:
    """Print how the run went: one line a stage, its score beside its floors."""
    print(f"{headline}: {summary.status}, {summary.steps} steps, {summary.parameters} parameters")
    if summary.divergence is not None:
        print(f"  step {summary.diverged_at}: {summary.divergence}")
    for record in summary.stages:
        outcome = "solved" if record.solved else "not solved"
        print(f"  stage {record.stage}: {outcome} after {record.steps} steps")
    for test in summary.test:
        accuracy, interval = test.evaluation.scored_accuracy, test.evaluation.scored_interval
        floors = ", ".join(f"{name} {value:.3f}" for name, value in test.floors.items())
        bounds = f"[{interval.low:.4f}, {interval.high:.4f}], n {test.evaluation.n}"
        print(f"  test {test.stage}: {accuracy:.4f} {bounds}; floors: {floors}")


@dataclass(frozen=True, kw_only=True)
class TuneOptions:
    """Where the search is kept, and how many runs go on at a time."""

    out: Path | None = None
    """Folder of the search; by default `runs/tune-NAME`, or `runs/tune-NAME-tpe` with that sampler.
    The same command goes on there."""
    workers: int = 1
    """Runs at a time, each on its share of the cores."""
    csv: Path | None = None
    """Write the table of all settings there as well."""


def tune(argv: list[str]) -> int:
    """Search the recipe of every arm of a comparison with the same effort.

    Args:
        argv: The arguments after the verb: a search's name, and flags.

    Returns:
        The exit code.
    """
    from lt2theory.experiments.searches import searches
    from lt2theory.experiments.tuning import Effort
    from lt2theory.experiments.tuning import tune as search
    from lt2theory.runs import TerminalProgress, write_json
    from lt2theory.runs.atomic import write_bytes

    known = searches()
    usage = "lt2 curriculum tune"
    name, rest = leading_name(argv, known, usage=usage, what="search", default=next(iter(known)))
    description = (
        "Give every arm of a comparison the same random settings, or as many guided ones, and the "
        "same budgets and seeds, then its best settings further seeds. Only the evaluation split "
        "is read. "
        f"SEARCH, a name in front of the options, is one of: {', '.join(known)}."
    )
    effort, options, copy = parse(
        f"{usage} [SEARCH]", rest, description, effort=Effort, options=TuneOptions, copy=JsonCopy
    )
    check_folder(options.out, "--out")
    check_files({"--json": copy.json, "--csv": options.csv})
    wanted = known[name]()
    guided = f"-{effort.sampler}" if effort.sampler != "random" else ""
    folder = options.out or Path("runs", f"tune-{name}{guided}")
    table = search(
        wanted.arms,
        wanted.space,
        folder,
        effort=effort,
        workers=options.workers,
        progress=TerminalProgress(),
    )
    if options.csv is not None:
        write_bytes(options.csv, table.to_csv(index=False).encode())
    if copy.json is not None:
        write_json(copy.json, table.to_dict("records"))
    for arm, rows in table.groupby("arm", sort=False):
        print(f"{arm}: best of {len(rows)} settings")
        for row in rows.head(3).to_dict("records"):
            print(
                f"  {row['solved']} of {row['seeds']} solved, {row['steps']:.0f} steps, "
                f"accuracy {row['accuracy']:.3f}: {row['setting']}"
            )
    print(folder)
    return DONE
