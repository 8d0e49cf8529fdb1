"""The stages of a linearization, one after the other: which student each takes, what it leaves."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lt2theory.linearize.construct import build_student
from lt2theory.linearize.distillation import Distillation, DistillationObjective
from lt2theory.linearize.divergence import Recovery, recovery
from lt2theory.linearize.hybrids import restored
from lt2theory.linearize.recipe import Recipe
from lt2theory.linearize.results import (
    START,
    LinearizeSummary,
    StageResult,
    has_start,
    load_start,
    save_start,
    stage_folder,
)
from lt2theory.linearize.sources import Sources
from lt2theory.linearize.stages import Stage
from lt2theory.linearize.texts import eval_tokens, train_tokens
from lt2theory.linearize.topk_store import TopKStore
from lt2theory.models import LoopedModel
from lt2theory.runs import Progress, RunFolder, config_hash, read_json, write_json
from lt2theory.training.lm import LmConfig, load_lm
from lt2theory.training.lm.learner import Learner
from lt2theory.training.lm.objective import StepObjective
from lt2theory.training.lm.session import (
    STAGE_KIND,
    Session,
    Task,
    train_in,
)
from lt2theory.training.lm.step import lm_runtime
from lt2theory.training.records import checked
from lt2theory.training.text import Windows

RECOVERY = "recovery.json"


class Linearization:
    """The stages of a linearization, in one process of those that carry it out.

    Args:
        recipe: What to do.
        sources: What is learnt from; the teacher is brought to this process's device.
        session: The processes and signals of the call.
        folder: The linearization's folder.
        run: The same, open for writing, in the first process; None in the others.
        header: What the folder's config.json tells: recipe, teacher, corpus and chat.
    """

    def __init__(
        self,
        recipe: Recipe,
        sources: Sources,
        session: Session,
        folder: Path,
        run: RunFolder | None,
        header: dict[str, Any],
    ) -> None:
        self.recipe = recipe
        self.sources = sources
        self.session = session
        self.folder = folder
        self.run = run
        self.identity = config_hash(header)
        self.read = {name: header[name] for name in ("teacher", "corpus", "chat")}
        self.runtime = lm_runtime(session.ranks.device, recipe.dtype)
        self.teacher = sources.teacher.model
        self.configs = recipe.students(self.teacher.config)

    def run_stages(
        self, runs: list[LmConfig], windows: list[Windows], progress: Progress | None
    ) -> LinearizeSummary:
        """Make the student and run the stages that are not done.

        Args:
            runs: The runs of the stages.
            windows: What each reads.
            progress: Told how far each is, in the first process.

        Returns:
            What the linearization says at its end, or at the end of a stage that diverged.

        Raises:
            ValueError: The student before the first stage is no number.
            Interrupted: As `train_in`.
            DiskFullError: Likewise.
        """
        device, dtype = self.session.ranks.device, runs[0].weight_dtype
        self.teacher.to(device=device, dtype=dtype)
        self._make_start()
        start = self._compared(0, self.folder / START, 0)
        if self._is_lost(start):
            raise ValueError("start: gives a student whose loss is no number; choose another one")
        results: list[StageResult] = []
        steps, before = 0, self.identity
        for number, (config, read) in enumerate(zip(runs, windows, strict=True), start=1):
            result = self._run_stage(number, config, read, before, steps, progress)
            results.append(result)
            before, steps = result.run.config_hash, steps + result.run.steps
            if result.run.status != "finished" or self._is_lost(result.recovery):
                break
        lost = self._is_lost(results[-1].recovery)
        return LinearizeSummary(
            status="diverged" if lost else results[-1].run.status,
            label=self.recipe.name,
            seed=self.recipe.seed,
            config_hash=self.identity,
            teacher=self.sources.teacher.name,
            pattern=self.configs[len(results)].pattern,
            parameters=results[-1].run.parameters,
            tokens=sum(result.run.tokens for result in results),
            start=start,
            stages=tuple(results),
        )

    def _run_stage(
        self,
        number: int,
        config: LmConfig,
        windows: Windows,
        before: str,
        steps: int,
        progress: Progress | None,
    ) -> StageResult:
        stage = self.recipe.stages[number - 1]
        own = stage_folder(self.folder, number, stage.name)
        summary = train_in(
            self.session,
            config,
            self.sources.corpus,
            folder=own,
            task=self._task(number, windows, before),
            progress=progress,
        )
        ended = summary.status == "finished"
        return StageResult(
            name=stage.name,
            folder=str(own.relative_to(self.folder)),
            run=summary,
            recovery=self._compared(number, own, steps + summary.steps) if ended else None,
        )

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
                generator=torch.Generator().manual_seed(recipe.seed),
            )
            save_start(self.folder, student.model)

    def _task(self, number: int, windows: Windows, before: str) -> Task:
        """What the run of a stage does."""
        stage = self.recipe.stages[number - 1]
        told = stage.model_dump(mode="json", include={"objective", "trained", "other_rate"})
        told |= {"restore": list(stage.restore), "data": stage.data, "before": before}

        def objective(student: LoopedModel) -> StepObjective:
            made = stage.objective.build(student, self.teacher)
            if isinstance(made, DistillationObjective) and made.config.top_k is not None:
                made.store = self._store(stage, made.config)
            return made

        def learner() -> Learner:
            student = self._student(number - 1)
            if stage.restore:
                student = restored(student, self.teacher, stage.restore)
            factors = stage.prepare(student)
            return Learner(student, objective, factors, stage.objective.whole)

        return Task(STAGE_KIND, {"stage": told}, learner, windows)

    def _store(self, stage: Stage, config: Distillation) -> TopKStore | None:
        """Where the teacher's likeliest tokens are kept, by all that they depend on."""
        if self.sources.cache is None:
            return None
        fields = {"batch_size", "sequence_length", "data"}
        told = stage.model_dump(mode="json", include=fields) | self.read
        told |= {"top_k": config.top_k, "temperature": config.temperature}
        told |= {"seed": self.recipe.seed, "dtype": self.recipe.dtype}
        return TopKStore(self.sources.cache / config_hash(told))

    def _student(self, number: int) -> LoopedModel:
        """The student after a stage, or before the first one, on this process's device."""
        dtype, device = self.teacher.dtype, self.session.ranks.device
        if number == 0:
            return load_start(self.folder, self.configs[0], dtype, device=device)
        folder = stage_folder(self.folder, number, self.recipe.stages[number - 1].name)
        return load_lm(folder, device=device)[0].to(dtype)

    def _is_lost(self, found: Recovery | None) -> bool:
        """Whether a comparison gave no numbers: the student's weights have diverged."""
        return found is None and self.recipe.recovery_windows > 0

    def _compared(self, number: int, folder: Path, steps: int) -> Recovery | None:
        """How near the student is to the teacher, if that is asked for and is a number."""
        # The first process measures it, once.
        ranks, found = self.session.ranks, None
        # The others wait here, so that they find the stage's last checkpoint.
        with ranks.first_decides():
            if self.run is not None and self.recipe.recovery_windows:
                path = folder / RECOVERY
                if not path.is_file():
                    measured = self._measure(self._student(number))
                    if measured.is_finite:
                        write_json(path, measured.model_dump(mode="json"))
                if path.is_file():
                    found = checked(Recovery, read_json(path), path)
                    metrics = found.model_dump(mode="json")
                    self.run.append_metrics(
                        {"split": "recovery", "step": steps, "metrics": metrics}
                    )
        told = ranks.from_first(None if found is None else found.model_dump(mode="json"))
        return None if told is None else Recovery.model_validate(told)

    def _measure(self, student: LoopedModel) -> Recovery:
        recipe = self.recipe
        tokens: Tensor = eval_tokens(
            self.sources.corpus, recipe.recovery_windows, recipe.recovery_length
        )
        with self.runtime.autocast():
            return recovery(self.teacher, student.eval(), tokens.to(self.runtime.device))
