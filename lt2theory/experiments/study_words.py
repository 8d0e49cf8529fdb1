"""Recipes of word problems and parity in the study: one configuration an arm and seed.

As in `experiments.study_recipes`, what a search may still change stands in
`experiments.study_chosen`.
"""

from typing import Literal

from lt2theory.experiments.recipes import LoopState
from lt2theory.experiments.study_chosen import WORDS, WORDS_BY_LOOPS
from lt2theory.experiments.study_recipes import arm_name
from lt2theory.models import LoopedConfig
from lt2theory.training import CurriculumConfig, OptimiserConfig, TaskConfig

Letters = Literal["all", "generators"]
"""Which elements of a group occur as tokens, as `tasks.group_word.GroupWord` names them."""

LENGTHS = (4, 8, 16, 32)
"""Training lengths of the word problems; the test goes to four times the last."""
SETTLED = 2000
"""Least steps of a length in arms that go on after they have passed it."""
_LEAST_WORDS = 50_000
"""Fewer different words leave too few in the evaluation split to confirm a pass mark of 0.99."""


def words(
    group: str,
    *,
    num_loops: int = 2,
    loop_state: LoopState = "accumulate",
    negative_eigenvalues: bool = True,
    pattern: str = "deltanet",
    letters: Letters = "generators",
    settled: bool = False,
    seed: int = 0,
) -> CurriculumConfig:
    """A group's word problem on one looped block, trained up to 32 tokens and tested at 64 and 128.

    Without a convolution the transitions of the first loop are functions of the token alone, as in
    theory E8. All arms have one size, but for the loop residual's vector a loop.

    The letters are the identity and a few generators: S5's 120 elements as letters were learnt by
    no setting of a search (results/study-tuning.csv), three of them by most arms. The loops that
    are needed are the same: the cycle of five points is the hardest element of S5 (E8), and it is
    a generator. S3 has all its six letters, for which L6 has an exact solution.

    Args:
        group: The group, as the task `group_word` names it.
        num_loops: Loops T.
        loop_state: `rescan` or `accumulate`; the same for T = 1.
        negative_eigenvalues: Beta in (0, 2) rather than (0, 1).
        pattern: The mixer.
        letters: Elements that occur as tokens.
        settled: Take at least `SETTLED` steps of every length, not leave it as soon as its pass
            mark is confirmed (after 500 at the earliest).
        seed: Seed of weights and data.

    Returns:
        The configuration.
    """
    task = TaskConfig(name="group_word", knobs={"group": group, "tokens": letters})
    arm = loop_state if num_loops > 1 else "one loop"
    optimiser, fields = WORDS_BY_LOOPS.get(arm, (WORDS, {}))
    changes = {
        loop_state: num_loops > 1,
        "beta1": not negative_eigenvalues,
        pattern: pattern != "deltanet",
        "all": letters == "all" and group != "S3",
        "settled": settled,
    }
    return CurriculumConfig(
        task=task,
        model=LoopedConfig.model_validate(
            {
                "width": 128,
                "num_layers": 1,
                "num_loops": num_loops,
                "pattern": pattern,
                "loop_state": loop_state if num_loops > 1 else "rescan",
                "num_heads": 8,
                "conv_width": 0,
                "negative_eigenvalues": negative_eigenvalues,
                "init_std": 0.04,
            }
            | fields
        ),
        optimiser=optimiser,
        stages=tuple(n for n in LENGTHS if task.create().instance_count(n) >= _LEAST_WORDS),
        test_stages=(2 * LENGTHS[-1], 4 * LENGTHS[-1]),
        batch_size=256,
        pass_mark=0.99,
        evaluate_every=50,
        step_budget=2500,
        min_steps=SETTLED if settled else 500,
        checkpoint_every=500,
        seed=seed,
        label=arm_name(group.lower(), "", num_loops, changes),
    )


def exact_start(seed: int = 0, *, slowed: int = 1) -> CurriculumConfig:
    """S3 under `rescan` from an exact solution (theory L6): does training keep what it can express?

    The normalisations' epsilon is 1e-3, not 1e-5 as elsewhere: see `training.exact_start`.

    Args:
        seed: Seed of the data, and of the weights that the solution leaves free.
        slowed: Divides the recipe's learning rate.

    Returns:
        The configuration: as many steps as a stage that fails, however well it does.
    """
    config = words("S3", loop_state="rescan", letters="all", seed=seed)
    rate = config.optimiser.learning_rate / slowed
    changes = {
        "label": f"{config.label}-exact" + (f"-slowed{slowed}" if slowed > 1 else ""),
        "start": "s3_rescan",
        "model": config.model.model_dump() | {"norm_eps": 1e-3},
        "optimiser": config.optimiser.model_dump() | {"learning_rate": rate},
        "stages": LENGTHS[-1:],
        "min_steps": config.step_budget,
    }
    return CurriculumConfig.model_validate(config.model_dump() | changes)


def long_parity(
    *,
    num_loops: int = 1,
    loop_state: LoopState = "rescan",
    negative_eigenvalues: bool = True,
    seed: int = 0,
) -> CurriculumConfig:
    """Parity on one delta-rule block, trained up to 256 tokens and tested at 1,024.

    Args:
        num_loops: Loops T.
        loop_state: `rescan` or `accumulate`.
        negative_eigenvalues: Beta in (0, 2) rather than (0, 1).
        seed: Seed of weights and data.

    Returns:
        The configuration.
    """
    changes = {loop_state: num_loops > 1, "beta1": not negative_eigenvalues}
    return CurriculumConfig(
        task=TaskConfig(name="parity"),
        model=LoopedConfig(
            num_layers=1,
            num_loops=num_loops,
            pattern="deltanet",
            loop_state=loop_state,
            conv_width=0,
            negative_eigenvalues=negative_eigenvalues,
        ),
        optimiser=OptimiserConfig(learning_rate=3e-3, warmup_steps=100, schedule="constant"),
        stages=(16, 64, 256),
        test_stages=(1024,),
        pass_mark=0.99,
        evaluate_every=50,
        step_budget=1500,
        min_steps=200,
        checkpoint_every=500,
        seed=seed,
        label=arm_name("parity", "", num_loops, changes),
    )
