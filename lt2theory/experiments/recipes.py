"""Named starting points of curriculum runs: functions that return a complete configuration.

They were not found with equal effort for every arm. S3: three starting deviations (0.072, 0.04,
0.02) were tried under both loop-state semantics at a rate of 3e-3. A rate of 6e-3, a convolution,
other batches, widths, schedules and lengths, then the FFN width, the budget and the pass mark, were
tried or set on `accumulate` runs alone, and T = 1 got the outcome. Accuracies on the test split
were printed beside those on the evaluation split. Parity, the distance probe and recall had a
few settings each. So a comparison of arms is one of this recipe, not of their best.
"""

from collections.abc import Callable
from typing import Literal

from lt2theory.models import LoopedConfig
from lt2theory.training import CurriculumConfig, OptimiserConfig, TaskConfig

Recipe = Callable[[], CurriculumConfig]
LoopState = Literal["rescan", "accumulate"]
Supervision = Literal["final", "all_pointers", "dense"]


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

    Args:
        group: The group, as the task `group_word` names it.
        num_loops: Loops T.
        loop_state: `rescan` or `accumulate`; the same for T = 1.
        seed: Seed of weights and data.

    Returns:
        The configuration.
    """
    return CurriculumConfig(
        task=TaskConfig(name="group_word", knobs={"group": group}),
        model=LoopedConfig(
            num_layers=1,
            num_loops=num_loops,
            pattern="deltanet",
            loop_state=loop_state,
            num_heads=8,
            ffn_width=64,
            conv_width=0,
            negative_eigenvalues=True,
        ),
        optimiser=OptimiserConfig(
            learning_rate=3e-3, weight_decay=0.01, warmup_steps=100, schedule="constant"
        ),
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
    return {
        "parity": parity,
        "s3": word_problem,
        "distance-probe": distance_probe,
        "recall": state_based_recall,
    }
