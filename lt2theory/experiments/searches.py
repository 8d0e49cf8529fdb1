"""Searches for recipes by name: arms that are compared, and what may be varied in each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lt2theory.experiments.recipes import word_problem
from lt2theory.experiments.search_space import LogUniform, Space
from lt2theory.experiments.study_recipes import FAMILIES, RUNGS, recall
from lt2theory.experiments.study_words import LENGTHS, words
from lt2theory.training import CurriculumConfig


@dataclass(frozen=True)
class Search:
    """What a search tries.

    Attributes:
        arms: One configuration an arm.
        space: What may be varied, the same for all.
    """

    arms: tuple[CurriculumConfig, ...]
    space: Space


def word_problem_arms(group: str = "S3") -> Search:
    """The word problem with one loop, and with two under either loop-state semantics.

    What is not varied belongs to the question: one layer of width 64 without a convolution, so that
    the transitions are functions of the token alone (theory E8), its training length and the budget
    of steps and examples.

    Args:
        group: The group.

    Returns:
        The search.
    """
    return Search(
        arms=(
            word_problem(group, num_loops=1),
            word_problem(group, loop_state="rescan"),
            word_problem(group, loop_state="accumulate"),
        ),
        space={
            "optimiser.learning_rate": LogUniform(1e-3, 1.2e-2),
            "optimiser.weight_decay": (0.0, 0.01, 0.1),
            "optimiser.schedule": ("constant", "cosine"),
            "optimiser.betas": ((0.9, 0.95), (0.9, 0.999)),
            "model.init_std": (0.02, 0.04, 0.08, 0.125),
            "model.ffn_width": (64, 176),
            "model.num_heads": (4, 8),
        },
    )


def recall_families() -> Search:
    """State-based recall by the five families of the study, four loops, up to eight swaps.

    The seed, the supervision, the layout and the shape of the model belong to the question.

    Returns:
        The search.
    """
    few = {"stages": RUNGS[:4], "step_budget": 500}
    return Search(
        arms=tuple(_shortened(recall(family), few) for family in FAMILIES),
        space={
            "optimiser.learning_rate": LogUniform(2e-4, 1e-3),
            "optimiser.weight_decay": (0.0, 0.01, 0.1),
            "optimiser.betas": ((0.9, 0.95), (0.9, 0.999)),
            "model.init_std": (0.02, 0.06),
            "model.embedding_std": (0.1, 1.0),
        },
    )


def s5_arms() -> Search:
    """S5 with all letters: one loop, and four under either semantics, up to 16 tokens.

    Returns:
        The search.
    """
    few = {"stages": LENGTHS[:3], "step_budget": 800}
    configs = (
        words("S5", num_loops=1, letters="all"),
        words("S5", num_loops=4, loop_state="rescan", letters="all"),
        words("S5", num_loops=4, loop_state="accumulate", letters="all"),
    )
    return Search(
        arms=tuple(_shortened(config, few) for config in configs),
        space={
            "optimiser.learning_rate": LogUniform(5e-4, 8e-3),
            "optimiser.weight_decay": (0.0, 0.01, 0.1),
            "optimiser.betas": ((0.9, 0.95), (0.9, 0.999)),
            "model.init_std": (0.02, 0.04, 0.08),
            "model.ffn_width": (128, 344),
            "model.num_heads": (4, 8),
        },
    )


def _shortened(config: CurriculumConfig, changes: dict[str, Any]) -> CurriculumConfig:
    blind = {"test": False, "test_stages": ()}
    return CurriculumConfig.model_validate(config.model_dump() | changes | blind)


def searches() -> dict[str, Callable[[], Search]]:
    """The searches by name.

    Returns:
        Name and function.
    """
    return {"s3": word_problem_arms, "recall": recall_families, "s5": s5_arms}
