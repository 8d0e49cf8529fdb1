"""The teachers of the studies: our own looped ones as cells, and the real one's size."""

from functools import cache

from lt2theory.experiments.linearization.cells import LinearCell, TeacherWork
from lt2theory.linearize.evaluation import EvaluationConfig
from lt2theory.models import LoopedConfig
from lt2theory.training.lm.recipes import find_recipe
from lt2theory.training.lm.teacher_recipes import SIZES

BLOCK = 1
BYTES = EvaluationConfig(
    parts=("recovery", "cloze", "needle", "mqar", "speed"),
    documents=100,
    needle_kinds=("number", "word"),
    needle_lengths=(256, 512, 1024, 2048),
    pairs=(4, 16),
    speed_lengths=(256, 2048, 8192),
)
"""What is measured of byte-level models."""
TOKENS = EvaluationConfig(
    parts=("recovery", "cloze", "needle", "mqar", "speed"),
    documents=100,
    speed_lengths=(256, 2048),
)
"""What is measured of students of the real teacher: needles of three kinds from 256 to 8192."""


@cache
def teacher(size: str) -> LinearCell:
    """The cell of a teacher.

    Args:
        size: One of `lt2theory.training.lm.teacher_recipes.SIZES`.

    Returns:
        The cell: `lt2 train --recipe teacher-<size>-<n>min`, and its evaluation.
    """
    name = next(n for n in ("teacher-1m-2min", "teacher-3m-4min", "teacher-7m-6min") if size in n)
    return LinearCell(
        name=f"teacher-{size}",
        study="teachers",
        block=BLOCK,
        arm=size,
        work=TeacherWork(config=find_recipe(name).config),
        evaluation=BYTES,
        facts={"size": size},
        priority=list(SIZES).index(size),
    )


def teacher_of(cell: LinearCell) -> LoopedConfig:
    """The model of a cell's teacher, or of the teacher that it trains.

    Args:
        cell: The cell.

    Returns:
        The config.
    """
    if isinstance(cell.work, TeacherWork):
        return cell.work.config.model
    return real_teacher() if cell.teacher is None else teacher_of(cell.teacher)


def real_teacher() -> LoopedConfig:
    """SmolLM2-135M as `load_teacher` opens it, for estimates before it is there.

    Returns:
        The config.
    """
    return LoopedConfig(
        vocab_size=49_152,
        width=576,
        num_layers=30,
        pattern="full",
        num_heads=9,
        num_kv_heads=3,
        head_dim=64,
        ffn_width=1536,
        positions="rope",
        rope_base=1e5,
        loop_gate=False,
        tie_embeddings=True,
        norm_eps=1e-5,
        embedding_std=0.02,
    )
