"""A linearization from a recipe to its summary: a row of runs, each resumable to the same bytes.

The folder of a linearization holds the student before its training (`start`) and a run for every
stage (`stages/<number>-<name>`), which the text trainer carries out: windows are a function of seed
and step, so that a stage goes on from its last checkpoint as if nothing had happened. A stage's
config.json names the stage before it by its hash; nothing goes on from another student.
"""

import contextlib
from pathlib import Path

from lt2theory.linearize.checks import check_recipe
from lt2theory.linearize.linearization import Linearization
from lt2theory.linearize.recipe import Recipe
from lt2theory.linearize.results import (
    KIND,
    STAGES,
    START,
    LinearizeSummary,
)
from lt2theory.linearize.sources import Sources, depends_on, plan
from lt2theory.linearize.texts import stage_windows
from lt2theory.runs import Progress, RunFolder
from lt2theory.runs.layout import SUMMARY
from lt2theory.runs.prepare import remove_tree
from lt2theory.training.lm import Execution
from lt2theory.training.lm.session import (
    check_corpus,
    open_session,
    shared_folder,
)
from lt2theory.training.records import checked


def run_recipe(
    recipe: Recipe,
    execution: Execution,
    sources: Sources,
    *,
    folder: Path,
    overwrite: bool = False,
    progress: Progress | None = None,
    seconds: float | None = None,
) -> LinearizeSummary:
    """Linearize a teacher, go on where that stopped, or return what was found before.

    Under torchrun every process calls this with the same arguments.

    Args:
        recipe: What to do.
        execution: How.
        sources: What is learnt from.
        folder: The linearization's folder; made if it is missing.
        overwrite: Start afresh, whatever linearization the folder holds.
        progress: Told how far each stage is, in the first process.
        seconds: Time after which it stops as if a signal had come; None for no end.

    Returns:
        The summary, which is also the folder's summary.json.

    Raises:
        ValueError: The recipe does not fit its sources or the machine, or the folder cannot be this
            linearization's.
        DiskFullError: The disk is full; the same call goes on.
        Interrupted: SIGINT or SIGTERM came, time is over, or another process is gone; likewise.
    """
    runs = plan(recipe, sources)
    header = {"recipe": recipe.to_json(), **depends_on(recipe, sources)}
    identity = {"label": recipe.name, "seed": recipe.seed, "task": "text"}
    with contextlib.ExitStack() as stack:
        session = stack.enter_context(open_session(execution, seconds=seconds))
        ranks = session.ranks
        check_recipe(recipe, runs, sources.teacher.model, session.execution, ranks.size)
        # Conversations are read here, where nothing is written yet.
        windows = [
            stage_windows(stage, sources.corpus, sources.chat, recipe.seed)
            for stage in recipe.stages
        ]
        run = stack.enter_context(
            shared_folder(ranks, folder, KIND, header, identity, overwrite=overwrite)
        )
        done = ranks.from_first(run.summary() if run and run.status == "done" else None)
        if done is not None:
            return checked(LinearizeSummary, done, folder / SUMMARY)
        check_corpus(ranks, sources.corpus)
        with ranks.first_decides():
            if run is not None:
                _begin(run, overwrite=overwrite)
        linearization = Linearization(recipe, sources, session, folder, run, header)
        summary = linearization.run_stages(runs, windows, progress)
        if run is not None:
            run.write_summary(summary.model_dump(mode="json"))
        return summary


def _begin(run: RunFolder, *, overwrite: bool) -> None:
    """Begin the metrics anew: each ended stage has kept what it says."""
    run.cut_metrics(0)
    for part in (STAGES, START) if overwrite else ():
        if (run.path / part).exists():
            remove_tree(run.path / part)
