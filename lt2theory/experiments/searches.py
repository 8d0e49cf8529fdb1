"""Searches for recipes by name: arms that are compared, and what may be varied in each."""

from collections.abc import Callable
from dataclasses import dataclass

from lt2theory.experiments.recipes import word_problem
from lt2theory.experiments.search_space import LogUniform, Space
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


def searches() -> dict[str, Callable[[], Search]]:
    """The searches by name.

    Returns:
        Name and function.
    """
    return {"s3": word_problem_arms}
