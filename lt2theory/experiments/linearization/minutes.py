"""How long a cell is expected to take on one H200, by launches, bytes and products.

The constants follow training steps of GDN and softmax at widths of 128 and 256
(results/train-step-h200.json, results/study-throughput-h200.json), to within 20 %. That steps of a
linearization follow them is an assumption, so that every number here is an estimate until cells of
its kind have ended in a folder (`Prices.factors`). A step is one of the student, and a third of one
of the teacher, which goes forward alone.
"""

from lt2theory.experiments.linearization.cells import (
    LinearCell,
    SelectionWork,
    StudentWork,
    TeacherWork,
    stage_steps,
)
from lt2theory.experiments.linearization.teachers import teacher_of
from lt2theory.experiments.serial import Prices
from lt2theory.linearize.evaluation import EvaluationConfig
from lt2theory.linearize.recipe import Recipe
from lt2theory.linearize.stages import Stage
from lt2theory.models import LoopedConfig
from lt2theory.models.flops import step_flops

PASS_MS = 0.36
"""Launches of a pass through a GDN block, forwards and backwards, in bfloat16. With 14.9 ms for
1e12 multiplications and additions it gives the three steps of GDN with four cells at once in
results/study-throughput-h200.json to within 4 %."""
PASSES: dict[str, float] = {
    "full": 0.5,
    "window": 0.6,
    "deltanet": 0.9,
    "retnet": 1.0,
    "mamba2": 1.0,
    "nsa": 1.1,
    "mlstm": 1.1,
    "dsa": 1.2,
    "gla": 1.2,
    "hgrn2": 1.2,
    "kda": 1.5,
}
"""Launches of a mixer's block beside those of GDN (1): estimates, from operations counted in plain
torch around the recurrence and from how many kernels the backend of `auto` has for it."""
BUILD_SECONDS = 15.0
"""To make a student and fit it, compile its kernels and write its checkpoints: a guess."""
STREAM_MS = 1.4e-7
"""Of a number of the residual stream in a pass of GDN's block, there and back: what is no product
moves bytes. At 8 passes of 65,536 tokens of width 128 a step of GDN takes 13.60 ms, 14.2 by these;
of softmax 8.57 ms, 8.1 by these."""
PRODUCT_MS = 2.5e-12
"""Of a multiplication or addition at 400 TFLOP/s, half of what large products reach."""
LOGIT_MS = 1.6e-8
"""Of a logit that is judged and turned into a gradient in float32: 56 bytes at 3.5 TB/s."""
_FORWARD = 1 / 3
_SHORTEST = 0.005
"""Seconds of a call that reads little."""


def cell_seconds(cell: LinearCell) -> float:
    """What a cell is expected to take.

    Args:
        cell: The cell.

    Returns:
        Seconds of training and evaluation.
    """
    work, source = cell.work, teacher_of(cell)
    measured = _evaluation_seconds(cell.evaluation, source)
    if isinstance(work, TeacherWork):
        run = work.config
        one = step_ms(run.model, run.batch_size, run.sequence_length)
        return run.total_steps * one / 1e3 + measured
    total = _recipe_seconds(work.recipe, source) + BUILD_SECONDS
    if isinstance(work, StudentWork):
        return total + measured
    return total + _selection_seconds(work, source)


def price_kind(cell: LinearCell) -> str:
    """What cells are alike in how their price compares with what they take.

    Args:
        cell: The cell.

    Returns:
        The kind of its work, and whether its teacher is the real one.
    """
    return f"{cell.work.kind}-{'real' if cell.is_real else 'own'}"


PRICES = Prices(cell_seconds, price_kind)
"""Of the studies' cells."""


def _selection_seconds(work: SelectionWork, source: LoopedConfig) -> float:
    chosen = work.selection
    stage = chosen.stage(0)
    a_step = _stage_ms(stage, source, work.recipe.students(source)[-1]) / 1e3
    # Starting a run and writing its checkpoint take about as long as twenty small steps.
    a_run = (chosen.steps + 20) * a_step
    return source.num_layers * chosen.seeds * a_run


def _recipe_seconds(recipe: Recipe, source: LoopedConfig) -> float:
    students = recipe.students(source)[1:]
    return sum(
        stage_steps(stage) * _stage_ms(stage, source, student) / 1e3
        for stage, student in zip(recipe.stages, students, strict=True)
    )


def _stage_ms(stage: Stage, source: LoopedConfig, student: LoopedConfig) -> float:
    shape = stage.batch_size, stage.sequence_length
    taught = 0.0 if stage.objective.kind == "language" else _FORWARD * step_ms(source, *shape)
    return step_ms(student, *shape) + taught


def step_ms(model: LoopedConfig, batch: int, length: int) -> float:
    """What a training step of `lt2 train` is expected to take.

    Args:
        model: The model.
        batch: Windows of the step.
        length: Tokens of a window.

    Returns:
        Milliseconds of one H200.
    """
    passes = sum(PASSES.get(spec.mixer, 1.0) for loop in model.loops for spec in loop)
    a_pass = PASS_MS + STREAM_MS * batch * length * model.width
    logits = LOGIT_MS * batch * length * model.vocab_size
    return passes * a_pass + PRODUCT_MS * step_flops(model, batch, length) + logits


def _evaluation_seconds(config: EvaluationConfig, source: LoopedConfig) -> float:
    """Forward passes of two models over what each part reads, as if all were softmax."""
    calls: list[tuple[int, int]] = []
    if "recovery" in config.parts:
        calls.append((config.documents or 200, 2 * config.length))
    if "cloze" in config.parts:
        calls.append((2 * config.clozes, config.cloze_context))
    if "needle" in config.parts:
        kinds = len(config.needle_kinds)
        calls += [(kinds * config.needles, length) for length in config.needle_lengths]
    if "mqar" in config.parts:
        calls += [(config.recalls, 4 * pairs) for pairs in config.pairs]
    total = sum(max(_SHORTEST, _FORWARD * step_ms(source, *call) / 1e3) for call in calls)
    if "speed" in config.parts:
        total += 3.0 * len(config.speed_lengths)
    return 2 * total
