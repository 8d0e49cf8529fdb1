"""Recipe A: Haller, Golde and Akbik, arXiv 2504.14366, and what may follow its three stages.

Numbers are those of the authors' code (HallerPatrick/linearization at 4dbd152) where nothing else
is said. Differences on purpose: divergences are per token, hidden states are compared by their mean
square as the paper says (the code takes norms), weights are float32, and a stage trains what its
loss reaches.
"""

from lt2theory.linearize.alignment import Alignment
from lt2theory.linearize.distillation import Distillation
from lt2theory.linearize.language import LanguageModelling
from lt2theory.linearize.recipe import Recipe
from lt2theory.linearize.recipe_b import aligned_recipe
from lt2theory.linearize.stages import Stage
from lt2theory.linearize.starts import STUDENT_MIXERS
from lt2theory.training.lm import LmOptimiserConfig
from tasks.names import unknown_name

SHARES = (0.026, 0.053, 0.921)
"""Of all tokens, by stage: 80M, 160M and 2.76B of 3B, which were MOHAWK's budgets."""
_RATES = (2e-4, 2e-3, 3e-4)
"""Peak learning rates by stage."""
_FAST = ("kda", "mlstm")
"""Mixers that take 4e-4 in the last stage."""
_RISE = 0.1
"""Share of a stage's steps in which the rate rises, and of the first two in which it falls."""


def recipe_a(
    mixer: str = "gdn",
    *,
    tokens: int = 20_000_000,
    batch_size: int = 32,
    sequence_length: int = 512,
    seed: int = 0,
    dtype: str = "bfloat16",
) -> Recipe:
    """Attention outputs, hidden states, then cross-entropy beside the divergence.

    Args:
        mixer: Mixers of the student: one of `STUDENT_MIXERS`, or any pattern.
        tokens: Of all stages together.
        batch_size: Windows of a step (the authors: 8 to 40 a device).
        sequence_length: Tokens of a window.
        seed: Of what is drawn and of the order of windows.
        dtype: As in `Recipe`.

    Returns:
        The recipe.

    Raises:
        ValueError: There are not enough tokens for a step of each stage.
    """
    a_step = batch_size * sequence_length
    counts = [round(share * tokens / a_step) for share in SHARES]
    if min(counts) < 1:
        raise ValueError(
            f"tokens: {tokens} are not enough (must be >= {round(a_step / min(SHARES)) + 1} for a "
            "step of each stage)"
        )
    last_rate = 4e-4 if mixer in _FAST else _RATES[2]
    one, two, three = counts
    common = {"batch_size": batch_size, "sequence_length": sequence_length}
    stages = (
        Stage(
            name="attention",
            objective=Alignment(target="mixer"),
            trained="mixers",
            steps=one,
            optimiser=_falling_late(_RATES[0], one),
            **common,
        ),
        Stage(
            name="hidden",
            objective=Alignment(target="block"),
            trained="blocks",
            steps=two,
            optimiser=_falling_late(_RATES[1], two),
            **common,
        ),
        Stage(
            name="distillation",
            objective=Distillation(),
            trained="all",
            steps=three,
            optimiser=_linear(last_rate, three),
            **common,
        ),
    )
    return Recipe.model_validate(
        {
            "name": f"A-{mixer}",
            "pattern": mixer,
            "changes": {"linear_rotation": "off"},
            "stages": stages,
            "seed": seed,
            "dtype": dtype,
        }
    )


def instruction_stage(
    steps: int, *, aware: bool, batch_size: int = 32, sequence_length: int = 1024
) -> Stage:
    """A stage on conversations, to be put behind the others.

    The authors train on smoltalk for an epoch at 3e-4, a tenth of it rising, half a cosine down, in
    windows of 1k to 2k.

    Args:
        steps: Optimiser steps.
        aware: Distil from an instructed teacher on the answers, or learn their words alone.
        batch_size: Windows of a step.
        sequence_length: Tokens of a window.

    Returns:
        The stage.
    """
    return Stage(
        name="instruction-distillation" if aware else "instruction",
        objective=Distillation() if aware else LanguageModelling(),
        data="chat",
        steps=steps,
        batch_size=batch_size,
        sequence_length=sequence_length,
        optimiser=LmOptimiserConfig(
            learning_rate=3e-4, schedule="cosine", warmup_steps=_rise(steps), final_fraction=0.0
        ),
    )


def tiny_recipe(mixer: str = "gdn") -> Recipe:
    """The three stages in a few small steps, for tests and first tries on a CPU.

    Args:
        mixer: Mixers of the student.

    Returns:
        The recipe.
    """
    made = recipe_a(mixer, tokens=5120, batch_size=2, sequence_length=32, dtype="float32")
    changes = {
        "name": f"tiny-{mixer}",
        "calibration_length": 64,
        "recovery_windows": 2,
        "recovery_length": 32,
    }
    return Recipe.model_validate(made.model_dump() | changes)


def presets() -> tuple[str, ...]:
    """Names of recipes that need no file.

    Returns:
        `tiny`, and for each of the seven mixers `smollm2-<mixer>`, and `align-<mixer>`, which ends
        where `lt2 linearize select` begins.
    """
    return ("tiny", *(f"{kind}-{m}" for kind in ("smollm2", "align") for m in STUDENT_MIXERS))


def preset(name: str, *, tokens: int | None = None) -> Recipe:
    """A recipe by its name.

    Args:
        name: One of `presets()`.
        tokens: Of all stages together; None is the preset's own number.

    Returns:
        The recipe.

    Raises:
        ValueError: There is no such recipe, or its budget cannot be changed or is too small.
    """
    if name not in presets():
        raise ValueError(unknown_name("recipe", name, presets()))
    if name == "tiny":
        if tokens is not None:
            raise ValueError(f"tokens: {tokens} is not allowed with 'tiny' (its steps are fixed)")
        return tiny_recipe()
    kind, mixer = name.split("-")
    make = recipe_a if kind == "smollm2" else aligned_recipe
    return make(mixer) if tokens is None else make(mixer, tokens=tokens)


def _falling_late(rate: float, steps: int) -> LmOptimiserConfig:
    """Rise, stay, fall to a ten-thousandth: a tenth, eight tenths and a tenth of the steps."""
    return LmOptimiserConfig(
        learning_rate=rate,
        schedule="wsd",
        warmup_steps=_rise(steps),
        decay_share=_RISE,
        decay_shape="linear",
        final_fraction=1e-4,
    )


def _linear(rate: float, steps: int) -> LmOptimiserConfig:
    return LmOptimiserConfig(
        learning_rate=rate, schedule="linear", warmup_steps=_rise(steps), final_fraction=0.0
    )


def _rise(steps: int) -> int:
    return round(_RISE * steps)
