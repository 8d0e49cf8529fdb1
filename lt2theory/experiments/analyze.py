"""Everything that the analysers say about one trained run, as tables and as a report."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from lt2theory.experiments.analysis_outcome import outcome
from lt2theory.experiments.analysis_tables import measure as measure
from lt2theory.experiments.analyze_text import measure_text
from lt2theory.models import LoopedModel
from lt2theory.report.analysis_report import analysis_report
from lt2theory.report.html import write_report
from lt2theory.runs import RunFolder, write_table
from lt2theory.training import CurriculumConfig, load_model
from lt2theory.training.curriculum import KIND as CURRICULUM
from lt2theory.training.lm.session import KIND as LM
from tasks import Batch, Task

FOLDER = "analysis"


@dataclass(frozen=True)
class Analysis:
    """What was measured on a run.

    Attributes:
        folder: The run's folder.
        report: The HTML file.
        tables: Table name -> what was written as `<name>.parquet` beside the report.
        facts: The setting and the findings, plain JSON values.
    """

    folder: Path
    report: Path
    tables: dict[str, pd.DataFrame]
    facts: dict[str, Any]


def analyze_run(
    folder: Path,
    *,
    stage: int | None = None,
    instances: int = 16,
    seed: int = 0,
    data: Path | None = None,
    command: str = "",
) -> Analysis:
    """Measure a run's model on held-out instances, in float64, and write tables and a report.

    Args:
        folder: The folder of a curriculum run or of a run of `lt2 train`, finished or not.
        stage: Difficulty of the instances; the last one of the run's training if None.
        instances: Instances of the test split; all of the split where it holds fewer. Of a
            language model, windows of the eval split.
        seed: Seed of the instances and of random probes.
        data: Folder of a language model's corpus; where it was in training if None.
        command: What a reader types to get the report again, or "".

    Returns:
        What was measured; written into `analysis/` in the run's folder.

    Raises:
        ValueError: The folder is no run with a checkpoint, or an argument is out of range.
    """
    started = time.perf_counter()
    if instances < 1:
        raise ValueError(f"instances: {instances} is not allowed (must be >= 1)")
    run = RunFolder.open(folder)
    if run.kind not in (CURRICULUM, LM):
        raise ValueError(
            f"{folder} holds a {run.kind} run; expected a run of 'lt2 curriculum' or 'lt2 train'"
        )
    if run.kind == LM:
        _refuse("stage", stage, "of language models there are no stages")
        tables, facts = measure_text(run, data=data, windows=instances, seed=seed)
    else:
        _refuse("data", data, "only language models have a corpus")
        tables, facts = _measure_task(run, stage, instances, seed)
    target = folder / FOLDER
    target.mkdir(exist_ok=True)
    for name, table in tables.items():
        write_table(target / f"{name}.parquet", table)
    facts["seconds"] = round(time.perf_counter() - started, 2)
    report = analysis_report(tables, facts, run, command=command)
    facts["findings"] = {one.title: list(one.happened) for one in report.sections}
    path = write_report(report, target / "report.html")
    return Analysis(folder, path, tables, facts)


def _refuse(name: str, value: object, reason: str) -> None:
    """Refuse an argument that the other kind of run has.

    Raises:
        ValueError: It was given.
    """
    if value is not None:
        raise ValueError(f"{name}: {value} is not allowed here ({reason})")


def _measure_task(
    run: RunFolder, stage: int | None, instances: int, seed: int
) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """Tables and setting of a curriculum run."""
    model, config = load_model(run.path)
    task = config.task.create()
    stage = config.stages[-1] if stage is None else stage
    batch = held_out(task, stage, instances, seed)
    facts = describe(model, config, task, stage, batch) | {"seed": seed} | outcome(run, config)
    return measure(model.double(), task, batch, seed=seed), facts


def held_out(task: Task, stage: int, instances: int, seed: int) -> Batch:
    """Instances of the test split.

    Args:
        task: The task.
        stage: Their difficulty.
        instances: How many; all of the split where it holds fewer.
        seed: Which ones.

    Returns:
        The batch.
    """
    task.check_stage(stage)
    held = task.split_count(stage, "test")
    size = instances if held is None else min(instances, held)
    return task.batch(stage=stage, split="test", seed=seed, index=0, size=size)


def describe(
    model: LoopedModel, config: CurriculumConfig, task: Task, stage: int, batch: Batch
) -> dict[str, Any]:
    """The setting of the measurements.

    Args:
        model: The model.
        config: The run's configuration.
        task: Its task.
        stage: Difficulty of the instances.
        batch: The instances.

    Returns:
        Plain JSON values.
    """
    size, length = batch.inputs.shape
    return {
        "label": config.label,
        "task": config.task.name,
        "knobs": dict(task.knobs),
        "stage": stage,
        "instances": size,
        "length": length,
        "pattern": model.config.pattern,
        "num_layers": model.config.num_layers,
        "num_loops": model.config.num_loops,
        "loop_state": model.config.loop_state,
        "output_gate": model.config.output_gate,
    }
