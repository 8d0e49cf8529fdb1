"""Named configurations of whole runs: `lt2 train --recipe NAME`."""

from dataclasses import dataclass

from lt2theory.models import find_preset
from lt2theory.training.lm.config import LmConfig
from lt2theory.training.lm.options import Execution, LmOptimiserConfig
from lt2theory.training.lm.teacher_recipes import teacher_config
from tasks.names import Named, unknown_name

_MINUTES = (("1m", 2), ("3m", 4), ("7m", 6))
"""Minutes of one H200 that the teachers are expected to take."""


@dataclass(frozen=True)
class Recipe:
    """A configuration, how it is meant to be carried out, and why it is as it is.

    Attributes:
        config: The configuration, without its corpus.
        execution: How.
        text: Why.
    """

    config: LmConfig
    execution: Execution
    text: str


def recipes() -> dict[str, Recipe]:
    """All recipes by name.

    Returns:
        The recipes.
    """
    teachers = {f"teacher-{size}-{minutes}min": (size, minutes) for size, minutes in _MINUTES}
    made = {name: _teacher(size, name, minutes) for name, (size, minutes) in teachers.items()}
    return Named("recipe", {"byte-10m-8min": _byte_10m_8min(), **made})


def find_recipe(name: str) -> Recipe:
    """A recipe by its name.

    Args:
        name: The name.

    Returns:
        The recipe.

    Raises:
        ValueError: There is none of that name.
    """
    known = recipes()
    if name not in known:
        raise ValueError(unknown_name("recipe", name, known))
    return known[name]


def _byte_10m_8min() -> Recipe:
    """LT2-hybrid of 10M parameters for 10 MB of text and eight minutes of one H200."""
    return Recipe(
        LmConfig(
            model=find_preset("byte-10m-full-gdn").config,
            optimiser=LmOptimiserConfig(
                learning_rate=1.5e-3,
                weight_decay=0.5,
                decay_embeddings=False,
                schedule="wsd",
                warmup_steps=150,
                decay_share=0.3,
                final_fraction=0.0,
            ),
            steps=3000,
            batch_size=64,
            sequence_length=1024,
            dtype="bfloat16",
            evaluate_every=1000,
            label="byte-10m-8min",
        ),
        Execution(device="cuda", cuda_graph=True, checkpoint_every=1000),
        "10 blocks of width 256, four loops, Gated DeltaNet with every fifth layer softmax. A "
        "step of 64 windows of 1024 bytes is 20 TFLOP (301 MFLOP a byte); at 15 to 20 % of the "
        "H200's 989 TFLOP/s it takes 0.10 to 0.13 s, so 3000 steps fit into eight minutes with "
        "room for evaluations. They read 197 MB: a corpus of 10 MB twenty times over, with "
        "about one byte for each parameter. What limits the result is then the text, not the "
        "products, so the share of the loops is large and weights decay strongly: with a rate "
        "of 1.5e-3, 0.5 forgets within 1300 steps, nine epochs, where the usual 0.1 would "
        "outlast the run. Many short windows rather than few long ones, since a recurrence "
        "walks along a window; 1024 bytes hold what a paragraph refers to. WSD, so that a "
        "longer or shorter run shares its course up to the decay. Every 1000 steps all held-out "
        "documents are read, in windows that overlap by half: 0.15 PFLOP.",
    )


def _teacher(size: str, label: str, minutes: int) -> Recipe:
    """A looped teacher of the studies of linearization."""
    config = teacher_config(size, label=label)
    return Recipe(
        config,
        Execution(device="cuda", cuda_graph=True, checkpoint_every=500),
        f"{config.model.num_layers} blocks of width {config.model.width} with sandwich norms, four "
        "loops of softmax attention, each read out and learnt: a teacher for lt2 linearize. "
        f"{config.total_steps} steps of 64 windows of 1024 bytes are expected to take {minutes} "
        "minutes of one H200 by launches and products as measured on GDN "
        "(lt2theory.experiments.linearization.minutes). Windows hold what a paragraph refers to; "
        "the text is read about ten times over.",
    )
