"""Whether a recipe can be carried out on its teacher, found out before anything is written."""

import torch

from lt2theory.linearize.copying import copy_around_mixers, copy_mixer
from lt2theory.linearize.hybrids import restored_config
from lt2theory.linearize.recipe import Recipe
from lt2theory.linearize.selection import SelectionConfig
from lt2theory.linearize.stages import Stage
from lt2theory.linearize.views import block_at, mixer_at
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.training.lm import Execution, LmConfig, resolve
from lt2theory.training.lm.checks import check_execution
from lt2theory.training.text import Corpus


def check_recipe(
    recipe: Recipe, runs: list[LmConfig], teacher: LoopedModel, execution: Execution, size: int
) -> None:
    """Refuse what would fail only once the student or a stage is begun.

    The student is copied without memory for its weights, and every objective is built on it.

    Args:
        recipe: The recipe.
        runs: The runs of its stages.
        teacher: The teacher.
        execution: How they are to be carried out.
        size: Processes.

    Raises:
        ValueError: The student cannot begin from this teacher, or a stage not from the student.
    """
    student = _without_weights(recipe.students(teacher.config)[0])
    copy_around_mixers(student, teacher)
    for layer in range(student.config.num_layers):
        numbers = [student.config.mixer_number(layer, i) for i in range(student.config.num_loops)]
        for number, mixer in enumerate(block_at(student, layer).mixers):
            copy_mixer(mixer, mixer_at(teacher, layer, numbers.index(number)), recipe.start)
    for stage, run in zip(recipe.stages, runs, strict=True):
        try:
            _check_stage(stage, run, teacher, execution, size)
        except ValueError as error:
            raise ValueError(f"stages: {stage.name!r}: {error}") from error


def check_selection(
    config: SelectionConfig,
    student: LoopedConfig,
    teacher: LoopedModel,
    corpus: Corpus,
    execution: Execution,
    size: int,
) -> None:
    """Refuse what would fail only once runs of a selection are begun, or after the last.

    Args:
        config: How layers are chosen.
        student: Config of the all-linear student.
        teacher: The teacher.
        corpus: The text.
        execution: How runs are to be carried out.
        size: Processes.

    Raises:
        ValueError: A run cannot be carried out, or the eval split is too short to probe on.
    """
    stage = config.stage(0)
    model = restored_config(student, teacher.config, stage.restore)
    run = resolve(stage.run(model, seed=0, dtype=config.dtype), corpus)
    _check_stage(stage, run, teacher, execution, size)
    present = corpus.manifest.splits["eval"].tokens
    if config.probe_length > present:
        raise ValueError(
            f"probe_length: {config.probe_length} must be at most the {present} tokens of the "
            f"eval split of {corpus.folder}"
        )


def _check_stage(
    stage: Stage, run: LmConfig, teacher: LoopedModel, execution: Execution, size: int
) -> None:
    check_execution(run, execution, size, stage.objective.whole)
    student = _without_weights(run.model)
    objective = stage.objective.build(student, teacher)
    if execution.cuda_graph:
        objective.check_graph()
    stage.prepare(student)


def _without_weights(config: LoopedConfig) -> LoopedModel:
    with torch.device("meta"):
        return LoopedModel(config)
