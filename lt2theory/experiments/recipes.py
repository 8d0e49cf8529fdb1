"""Named starting points of curriculum runs: functions that return a complete configuration.

The word problem's three arms were tuned with equal effort (`experiments.searches`, results in
results/s3-tuning.csv): 40 settings drawn at random, the same for all, with two seeds each, then
every arm's best eight with four further seeds, judged on the evaluation split alone. Parity, the
distance probe and recall had a few settings each, tried by hand.
"""

from collections.abc import Callable
from functools import partial
from typing import Literal

from lt2theory.models import LoopedConfig
from lt2theory.training import CurriculumConfig, OptimiserConfig, TaskConfig
from tasks.names import Named

Recipe = Callable[[], CurriculumConfig]
LoopState = Literal["rescan", "accumulate"]
Supervision = Literal["final", "all_pointers", "dense"]

WORD_PROBLEM = {
    "one loop": (
        0.08,
        176,
        OptimiserConfig(
            learning_rate=7.5e-3, weight_decay=0.01, betas=(0.9, 0.999), warmup_steps=100
        ),
    ),
    "rescan": (
        0.125,
        64,
        OptimiserConfig(learning_rate=6e-3, warmup_steps=100, schedule="constant"),
    ),
    "accumulate": (
        0.04,
        176,
        OptimiserConfig(learning_rate=1.2e-3, betas=(0.9, 0.999), warmup_steps=100),
    ),
}
"""Starting deviation, feed-forward width and optimiser that the search chose for every arm."""


def parity(*, negative_eigenvalues: bool = True, seed: int = 0) -> CurriculumConfig:
    """Parity on one delta-rule block of width 32, tested at two and four times its length.

    Args:
        negative_eigenvalues: Let beta range over (0, 2) rather than (0, 1).
        seed: Seed of weights and data.

    Returns:
        The configuration.
    """
    return CurriculumConfig(
        task=TaskConfig(name="parity"),
        model=LoopedConfig(
            width=32,
            num_layers=1,
            pattern="deltanet",
            conv_width=0,
            negative_eigenvalues=negative_eigenvalues,
        ),
        optimiser=OptimiserConfig(learning_rate=3e-3, weight_decay=0.01),
        stages=(32,),
        test_stages=(64, 128),
        min_steps=300,
        step_budget=400,
        seed=seed,
        threads=1,
        label=f"beta in (0, {2 if negative_eigenvalues else 1})",
    )


def word_problem(
    group: str = "S3", *, num_loops: int = 2, loop_state: LoopState = "accumulate", seed: int = 0
) -> CurriculumConfig:
    """A group's word problem on one looped delta-rule block, tested at up to four times its length.

    The optimiser, the starting deviation, the heads and the feed-forward width are those that a
    search with equal effort found for S3 and this arm: `accumulate` solved it with 6 of 6 seeds of
    the search, `rescan` with 2 of 6 (with 0 of 6 when those runs were done again on another machine
    under another torch), one loop with none.

    Args:
        group: The group, as the task `group_word` names it.
        num_loops: Loops T; more than two take the recipe of two.
        loop_state: `rescan` or `accumulate`; the same for T = 1.
        seed: Seed of weights and data.

    Returns:
        The configuration.
    """
    arm = loop_state if num_loops > 1 else "one loop"
    init_std, ffn_width, optimiser = WORD_PROBLEM[arm]
    return CurriculumConfig(
        task=TaskConfig(name="group_word", knobs={"group": group}),
        model=LoopedConfig(
            num_layers=1,
            num_loops=num_loops,
            pattern="deltanet",
            loop_state=loop_state,
            num_heads=8,
            ffn_width=ffn_width,
            conv_width=0,
            init_std=init_std,
            negative_eigenvalues=True,
        ),
        optimiser=optimiser,
        stages=(16,),
        test_stages=(32, 64),
        pass_mark=0.95,
        evaluate_every=50,
        step_budget=800,
        seed=seed,
        threads=1,
        label=f"T={num_loops} {loop_state}" if num_loops > 1 else "T=1",
    )


def distance_probe(
    *, num_loops: int = 2, window: int = 8, beyond: bool = False, seed: int = 0
) -> CurriculumConfig:
    """How far one looped window layer can see: sequences grow up to its reach, or one token more.

    The first token holds the bit that the last one must tell, so a stage of n tokens needs a reach
    of n. Theory W1 puts the reach at `T (window - 1) + 1` for one layer.

    Args:
        num_loops: Loops T.
        window: Tokens that the layer sees, itself included.
        beyond: Train on one token more than the reach as well, rather than only test there.
        seed: Seed of weights and data.

    Returns:
        The configuration.
    """
    inside = tuple(loops * (window - 1) + 1 for loops in range(1, num_loops + 1))
    outside = (inside[-1] + 1,)
    return CurriculumConfig(
        task=TaskConfig(name="distance_probe", knobs={"distance": None, "symbols": 8}),
        model=LoopedConfig(
            num_layers=1, num_loops=num_loops, pattern=f"window({window})", init_std=0.1
        ),
        optimiser=OptimiserConfig(learning_rate=3e-3, warmup_steps=20, schedule="constant"),
        stages=inside + outside if beyond else inside,
        test_stages=() if beyond else outside,
        evaluate_every=25,
        step_budget=250,
        seed=seed,
        threads=1,
        label=f"T={num_loops}, " + ("up to one beyond" if beyond else "up to the reach"),
    )


def state_based_recall(*, supervision: Supervision = "dense", seed: int = 0) -> CurriculumConfig:
    """The first rungs of LT2's curriculum on a small hybrid: one and two swaps, eight bits.

    Args:
        supervision: Which positions carry a loss; promotion looks at the final query alone.
        seed: Seed of weights and data.

    Returns:
        The configuration.
    """
    return CurriculumConfig(
        task=TaskConfig(
            name="state_based_recall", knobs={"supervision": supervision, "layout": "indexed"}
        ),
        model=LoopedConfig(
            num_layers=3,
            pattern="deltanet,full,deltanet",
            negative_eigenvalues=True,
            positions="learned",
            max_length=1,
        ),
        optimiser=OptimiserConfig(
            learning_rate=2e-3, weight_decay=0.01, warmup_steps=100, schedule="constant"
        ),
        stages=(1, 2),
        batch_size=128,
        step_budget=800,
        seed=seed,
        threads=1,
        label=f"{supervision} supervision",
    )


def recipes() -> dict[str, Recipe]:
    """The recipes by name, with their defaults.

    Returns:
        Name and function; the function's configuration is a starting point for overrides.
    """
    made: dict[str, Callable[[], CurriculumConfig]] = {
        "parity": parity,
        "s3": word_problem,
        "s3-rescan": partial(word_problem, loop_state="rescan"),
        "s3-one-loop": partial(word_problem, num_loops=1, loop_state="rescan"),
        "distance-probe": distance_probe,
        "recall": state_based_recall,
    }
    return Named("recipe", made)
