"""A linearization from a recipe to its summary: a row of runs, each resumable to the same bytes.

The folder of a linearization holds the student before its training (`start`) and a run for every
stage (`stages/<number>-<name>`), which the text trainer carries out: windows are a function of seed
and step, so that a stage goes on from its last checkpoint as if nothing had happened. A stage's
config.json names the stage before it by its hash; nothing goes on from another student.
"""

from pathlib import Path
from typing import Any

from torch import Tensor

from lt2theory.linearize.construct import build_student
from lt2theory.linearize.divergence import recovery
from lt2theory.linearize.hybrids import restored
from lt2theory.linearize.recipe import Recipe
from lt2theory.linearize.results import (
    KIND,
    STAGES,
    START,
    LinearizeSummary,
    RecoveryRecord,
    StageResult,
    has_start,
    load_start,
    save_start,
    stage_folder,
)
from lt2theory.linearize.sources import Sources, depends_on, plan
from lt2theory.linearize.stages import Stage
from lt2theory.linearize.texts import eval_tokens, stage_windows, train_tokens
from lt2theory.models import LoopedModel
from lt2theory.runs import Progress, RunFolder, config_hash, read_json, write_json
from lt2theory.runs.prepare import remove_tree
from lt2theory.training.lm import Execution, LmConfig, LmSummary, load_lm
from lt2theory.training.lm.session import (
    STAGE_KIND,
    Session,
    Task,
    open_session,
    shared_folder,
    train_in,
)
from lt2theory.training.lm.step import Learner, lm_runtime
from lt2theory.training.records import checked

RECOVERY = "recovery.json"


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
    with (
        open_session(execution, seconds=seconds) as session,
        shared_folder(session.ranks, folder, KIND, header, identity, overwrite=overwrite) as run,
    ):
        ranks = session.ranks
        done = ranks.from_first(run.summary() if run and run.status == "done" else None)
        if done is not None:
            return checked(LinearizeSummary, done, folder)
        with ranks.first_decides():
            if run is not None:
                _begin(run, overwrite=overwrite)
        linearization = _Linearization(recipe, sources, session, folder, run, config_hash(header))
        summary = linearization.run_stages(runs, progress)
        if run is not None:
            run.write_summary(summary.model_dump(mode="json"))
        return summary


def _begin(run: RunFolder, *, overwrite: bool) -> None:
    """Begin the metrics anew: each ended stage has kept what it says."""
    run.cut_metrics(0)
    for part in (STAGES, START) if overwrite else ():
        if (run.path / part).exists():
            remove_tree(run.path / part)


class _Linearization:
    """The stages of a linearization, in one process of those that carry it out."""

    def __init__(
        self,
        recipe: Recipe,
        sources: Sources,
        session: Session,
        folder: Path,
        run: RunFolder | None,
        identity: str,
    ) -> None:
        self.recipe = recipe
        self.sources = sources
        self.session = session
        self.folder = folder
        self.run = run
        self.identity = identity
        self.runtime = lm_runtime(session.ranks.device, recipe.dtype)
        self.teacher = sources.teacher.model
        self.configs = recipe.students(self.teacher.config)

    def run_stages(self, runs: list[LmConfig], progress: Progress | None) -> LinearizeSummary:
        """Make the student and run the stages that are not done."""
        device, dtype = self.session.ranks.device, runs[0].weight_dtype
        self.teacher.to(device=device, dtype=dtype)
        self._make_start()
        start = self._compared(0, self.folder / START, 0)
        results: list[StageResult] = []
        steps, before = 0, self.identity
        for number, (stage, config) in enumerate(
            zip(self.recipe.stages, runs, strict=True), start=1
        ):
            own = stage_folder(self.folder, number, stage.name)
            summary = train_in(
                self.session,
                config,
                self.sources.corpus,
                folder=own,
                task=self._task(number, stage, before),
                progress=progress,
            )
            before, steps = summary.config_hash, steps + summary.steps
            found = None
            if summary.status == "finished":
                found = self._compared(number, own, steps)
            results.append(
                StageResult(
                    name=stage.name,
                    folder=str(own.relative_to(self.folder)),
                    run=summary,
                    recovery=found,
                )
            )
            if summary.status != "finished":
                break
        return self._summary(start, results)

    def _make_start(self) -> None:
        """Make the student before its first stage, once, in the first process."""
        recipe = self.recipe
        with self.session.ranks.first_decides():
            if self.run is None or has_start(self.folder):
                return
            tokens = train_tokens(
                self.sources.corpus, recipe.calibration_windows, recipe.calibration_length
            )
            student = build_student(
                self.teacher,
                self.configs[0],
                recipe.start,
                calibration=tokens.to(self.session.ranks.device),
            )
            save_start(self.folder, student.model)

    def _task(self, number: int, stage: Stage, before: str) -> Task:
        """What the run of a stage does."""
        told = stage.model_dump(mode="json", include={"objective", "trained", "other_rate"})
        told |= {"restore": list(stage.restore), "data": stage.data, "before": before}

        def learner() -> Learner:
            student = self._student(number - 1)
            if stage.restore:
                student = restored(student, self.teacher, stage.restore)
            factors = stage.prepare(student)
            objective = stage.objective
            return Learner(
                student, lambda own: objective.build(own, self.teacher), factors, objective.whole
            )

        windows = stage_windows(stage, self.sources.corpus, self.sources.chat, self.recipe.seed)
        return Task(STAGE_KIND, {"stage": told}, learner, windows)

    def _student(self, number: int) -> LoopedModel:
        """The student after a stage, or before the first one, on this process's device."""
        if number == 0:
            student = load_start(self.folder, self.configs[0], self.teacher.dtype)
        else:
            name = self.recipe.stages[number - 1].name
            student = load_lm(stage_folder(self.folder, number, name))[0]
        return student.to(device=self.session.ranks.device, dtype=self.teacher.dtype)

    def _compared(self, number: int, folder: Path, steps: int) -> RecoveryRecord | None:
        """How near the student is to the teacher; the first process measures it, once."""
        ranks, found = self.session.ranks, None
        # The others wait here, so that they find the stage's last checkpoint.
        with ranks.first_decides():
            if self.run is not None and self.recipe.recovery_windows:
                path = folder / RECOVERY
                if not path.is_file():
                    measured = RecoveryRecord.of(self._measure(self._student(number)))
                    write_json(path, measured.model_dump(mode="json"))
                found = checked(RecoveryRecord, read_json(path), path)
                metrics = found.model_dump(mode="json")
                self.run.append_metrics({"split": "recovery", "step": steps, "metrics": metrics})
        told = ranks.from_first(None if found is None else found.model_dump(mode="json"))
        return None if told is None else RecoveryRecord.model_validate(told)

    def _measure(self, student: LoopedModel) -> Any:
        recipe = self.recipe
        tokens: Tensor = eval_tokens(
            self.sources.corpus, recipe.recovery_windows, recipe.recovery_length
        )
        with self.runtime.autocast():
            return recovery(self.teacher, student.eval(), tokens.to(self.runtime.device))

    def _summary(
        self, start: RecoveryRecord | None, results: list[StageResult]
    ) -> LinearizeSummary:
        last: LmSummary = results[-1].run
        model = self.configs[len(results)]
        return LinearizeSummary(
            status=last.status,
            label=self.recipe.name,
            seed=self.recipe.seed,
            config_hash=self.identity,
            teacher=self.sources.teacher.name,
            pattern=model.pattern,
            parameters=last.parameters,
            tokens=sum(result.run.tokens for result in results),
            start=start,
            stages=tuple(results),
        )
