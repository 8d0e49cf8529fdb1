"""Layers that keep softmax, by trained divergence: one layer restored, a short distillation each.

From arXiv 2512.20569 (GA-S2): of the all-linear student only one layer is restored, everything is
trained for some steps, and layers are ranked by the divergence at a fixed step. In a looped teacher
a restored layer is softmax in every loop, and the divergences of all loops are added up.
"""

import math
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import Field, model_validator

from lt2theory.fields import Frozen
from lt2theory.linearize.choice import check_count
from lt2theory.linearize.hybrid_distillation import HybridDistillation
from lt2theory.linearize.hybrids import restored, restored_config
from lt2theory.linearize.recipe_b import OTHER_RATE
from lt2theory.linearize.sources import Sources, weights_fingerprint
from lt2theory.linearize.stages import Stage
from lt2theory.models import LoopedModel
from lt2theory.runs import Progress, RunFolder
from lt2theory.runs.layout import CHECKPOINTS
from lt2theory.runs.prepare import remove_tree
from lt2theory.training.lm import LmConfig, LmOptimiserConfig, resolve
from lt2theory.training.lm.learner import Learner
from lt2theory.training.lm.session import STAGE_KIND, Session, Task, train_in

RUNS = "runs"


class SelectionConfig(Frozen):
    """How layers are chosen."""

    keep: int | None = Field(
        None, ge=1, description="Layers that keep softmax; none is a quarter, rounded up."
    )
    seeds: int = Field(
        3, ge=1, le=64, description="Runs a layer, each on another order of the text."
    )
    steps: int = Field(200, ge=1, description="Optimiser steps of a run.")
    last: int = Field(
        20,
        ge=1,
        description="The divergence is a mean over so many last steps, which divide steps.",
    )
    batch_size: int = Field(32, ge=1, description="Windows of a step.")
    sequence_length: int = Field(512, ge=2, description="Tokens of a window.")
    learning_rate: float = Field(1e-4, gt=0, description="Of mixers, constant.")
    other_rate: float = Field(
        OTHER_RATE, gt=0, le=1, description="Of what is no mixer, as a share of that."
    )
    top_k: int = Field(64, ge=1, description="The teacher's likeliest tokens that are matched.")
    dtype: str = Field(
        "float32",
        pattern="^(float32|bfloat16|float64)$",
        description="bfloat16 multiplies under autocast.",
    )
    probe_windows: int = Field(
        4, ge=1, description="Held-out windows a seed for the selectors that need no training."
    )
    probe_length: int = Field(256, ge=2, description="Tokens of such a window.")

    @model_validator(mode="after")
    def _check(self) -> "SelectionConfig":
        if self.steps % self.last:
            raise ValueError(f"last: {self.last} must divide steps, {self.steps}")
        return self

    def count(self, num_layers: int) -> int:
        """Layers that are chosen.

        Args:
            num_layers: Of how many.

        Returns:
            `keep`, or a quarter.

        Raises:
            ValueError: There are not so many.
        """
        found = -(-num_layers // 4) if self.keep is None else self.keep
        check_count(found, num_layers, name="keep")
        return found

    def stage(self, layer: int) -> Stage:
        """The short distillation with one layer restored.

        Args:
            layer: The layer.

        Returns:
            The stage; all loops count alike to its end.
        """
        return Stage(
            name=f"layer-{layer:02d}",
            objective=HybridDistillation(top_k=self.top_k, warm_share=1.0, fade_share=0.0),
            restore=(layer,),
            other_rate=self.other_rate,
            steps=self.steps,
            batch_size=self.batch_size,
            sequence_length=self.sequence_length,
            log_every=self.last,
            optimiser=LmOptimiserConfig(
                learning_rate=self.learning_rate,
                schedule="constant",
                warmup_steps=0,
                weight_decay=0.0,
            ),
        )


def restoration_runs(
    student: LoopedModel,
    config: SelectionConfig,
    sources: Sources,
    session: Session,
    *,
    folder: Path,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Distil the student once a layer and seed; runs that were done before are read.

    All layers of a seed read the same windows in the same order, from the same weights. A run that
    has ended keeps its metrics, not its weights.

    Args:
        student: The all-linear student after its alignment, on the session's device.
        config: How.
        sources: The teacher, on that device and in that dtype, and the text.
        session: What the runs of the call share.
        folder: Where the runs lie, below `runs`.
        progress: Told how far each is.

    Returns:
        The course of each run: `layer`, `seed`, `step` and `kl`, the divergence summed over loops,
        a mean over the steps since the row before.

    Raises:
        ValueError: A run diverged, or as `train_in`.
        Interrupted: As `train_in`; the same call goes on.
    """
    teacher = sources.teacher.model
    header = {"student": weights_fingerprint(student), "teacher": weights_fingerprint(teacher)}
    tables = []
    for seed in range(config.seeds):
        for layer in range(student.config.num_layers):
            stage = config.stage(layer)
            model = restored_config(student.config, teacher.config, (layer,))
            run = resolve(stage.run(model, seed=seed, dtype=config.dtype), sources.corpus)
            own = folder / RUNS / f"seed-{seed}" / stage.name
            task = _task(stage, student, teacher, header)
            summary = train_in(
                session, run, sources.corpus, folder=own, task=task, progress=progress
            )
            course = _course(own, run)
            if summary.status != "finished" or course["kl"].isna().any():
                raise ValueError(f"learning_rate: {config.learning_rate} let {own} diverge")
            _drop_weights(session, own)
            tables.append(course.assign(layer=layer, seed=seed))
    return pd.concat(tables, ignore_index=True)[["layer", "seed", "step", "kl"]]


def _task(stage: Stage, student: LoopedModel, teacher: LoopedModel, header: dict[str, Any]) -> Task:
    """What a run does: from the student with the stage's layer restored."""

    def learner() -> Learner:
        own = restored(student, teacher, stage.restore)
        factors = stage.prepare(own)
        objective = stage.objective
        return Learner(own, lambda one: objective.build(one, teacher), factors, objective.whole)

    told = stage.model_dump(mode="json", include={"objective", "trained", "other_rate"})
    return Task(STAGE_KIND, {"stage": told | {"restore": list(stage.restore)}} | header, learner)


def _course(folder: Path, run: LmConfig) -> pd.DataFrame:
    """Divergences of a run, over all loops, at each record of its training."""
    records = [one for one in RunFolder.open(folder).metrics() if one.get("split") == "train"]
    return pd.DataFrame(
        {
            "step": [one["step"] for one in records],
            "kl": [_summed(one["metrics"], run.model.num_loops) for one in records],
        }
    )


def _summed(metrics: dict[str, float], loops: int) -> float:
    # Where no step since the record before was finite, there is none.
    names = ["kl"] if loops == 1 else [f"loop_{loop}_kl" for loop in range(1, loops + 1)]
    return sum(metrics.get(name, math.nan) for name in names)


def _drop_weights(session: Session, folder: Path) -> None:
    """Free the disk of what nothing reads any more."""
    with session.ranks.first_decides():
        if session.ranks.is_first and (folder / CHECKPOINTS).is_dir():
            remove_tree(folder / CHECKPOINTS)


def final_scores(course: pd.DataFrame) -> pd.DataFrame:
    """Scores of layers at the last step of every run.

    Args:
        course: From `restoration_runs`.

    Returns:
        A row a layer and seed: `layer`, `seed` and `score`, the divergence with its sign turned, so
        that the layers to keep have the highest.
    """
    last: pd.DataFrame = course.loc[course["step"] == course["step"].max()]
    found: pd.DataFrame = last.assign(score=-last["kl"])[["layer", "seed", "score"]]
    return found.reset_index(drop=True)
