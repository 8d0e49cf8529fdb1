"""The study `loops`: which looped mixers reach which stage, and what looping buys, as cells.

Blocks in the order in which they are carried out: (1) state-based recall, (2) word problems and
parity, (3) what T = 8, untied depth, width, `accumulate` and small beta change in (1), (4) one seed
of everything else, which is exploratory. A comparison is as few arms as answer a question. All its
seeds come before the next one, so that what a budget leaves out is whole questions, not single
arms.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from lt2theory.experiments.cells import Cell, Cells
from lt2theory.experiments.recipes import LoopState
from lt2theory.experiments.study_explore import (
    all_letters,
    hops,
    more_mixers,
    needles,
    other_settings,
    reaches,
    state_sizes,
)
from lt2theory.experiments.study_recipes import (
    FAMILIES,
    recall,
    recall_by_rank,
    settled_recall,
)
from lt2theory.experiments.study_steps import measured_shares, measured_steps
from lt2theory.experiments.study_words import exact_start, long_parity, words
from lt2theory.training import CurriculumConfig

SEEDS = 3
S3_SEEDS = 5
GROUPS = ("S3", "S4", "A5", "S5")
TWINS = ("Z5", "Z60", "A4xZ5")
"""Solvable: Z60 and A4xZ5 share A5's vocabulary and differ in nothing else."""
DIAGONAL = ("retnet", "mamba2", "gla", "hgrn2")
PAIR = ("gdn", "gdn-nsa")
"""Block (1)'s best two, by `study_views.best_hybrids`, since its arms with four loops have run."""
SECOND_THOUGHTS = ("softmax", "full-gdn")
"""Families that the first recipe did not take to 128 swaps with any seed."""

STATES: tuple[LoopState, ...] = ("rescan", "accumulate")

Arm = Callable[[int], CurriculumConfig]
Comparisons = list[list[Arm]]


@cache
def loops() -> Cells:
    """All cells, in order.

    Returns:
        The study.
    """
    return (*block_one(), *block_two(), *block_three(), *block_four())


def block_one() -> Cells:
    """State-based recall to 128 swaps by five families, with four loops and with one.

    Returns:
        Those of five families, then GDN+Window again, at every rung for at least `SETTLED` steps.
    """
    pairs = (("gdn-window", "softmax"), ("full-gdn", "gdn"))
    comparisons = [
        [_recall(family, loops) for family in pair] for pair in pairs for loops in (4, 1)
    ]
    rest = [family for family in FAMILIES if not any(family in pair for pair in pairs)]
    comparisons += [[_recall(family, loops) for loops in (4, 1)] for family in rest]
    comparisons += [[settled_recall]]
    return _block(1, comparisons, expected_steps=500)


def block_two() -> Cells:
    """Word problems by loop-state semantics, loops and beta; solvable twins; parity to 1,024.

    Returns:
        The cells, those that the study's second question needs first.
    """
    hard = [[_word("S5", 1), *_both("S5", 4)]]
    hard += [[_word(group, 1), *_both(group, 2)] for group in ("A5", "S4")]
    s3: Comparisons = [
        [_word("S3", 1), *_both("S3", 2)],
        [exact_start, partial(exact_start, slowed=100)],
    ]
    more = [_both("S5", 2)] + [_both(group, 4) for group in ("A5", "S4", "S3")]
    twins = [[_word(group, 1), *_both(group, 2)] for group in TWINS]
    parity = [_parity(1), _parity(1, beta2=False)]
    parity += [_parity(2, state, beta2=False) for state in STATES]
    small = [[_word(group, 1, beta2=False), *_both(group, 4, beta2=False)] for group in GROUPS]
    diagonal = [[_word("S3", loops, pattern=name) for loops in (1, 2)] for name in DIAGONAL]
    smaller = [_both(group, 2, beta2=False) for group in GROUPS]
    settled = [_both("S5", 4, settled=True)]
    settled += [_both(group, 2, settled=True) for group in ("S5", "A5", "S4")]
    parts: tuple[Comparisons, ...] = (
        hard, s3, more, twins, [parity], small, diagonal, smaller, settled,
    )  # fmt: skip
    seeds = [S3_SEEDS if part is s3 else SEEDS for part in parts for _ in part]
    return _block(2, [arms for part in parts for arms in part], seeds=seeds)


def block_three() -> Cells:
    """What else one might change of block (1).

    Returns:
        T = 8; sixteen blocks of their own, and twice the width (four times the products), both with
        one loop; then beta in (0, 1) and `accumulate` for the best two families.
    """
    depth = [
        [_recall("gdn-window", 8)],
        [_recall("gdn-window", 1, num_layers=16), _recall("gdn-window", 1, width=512)],
    ]
    changed = [
        [
            _recall(family, 4, negative_eigenvalues=False),
            _recall(family, 4, loop_state="accumulate"),
        ]
        for family in PAIR
    ]
    return _block(3, [*depth, *changed], expected_steps=500)


def block_four() -> Cells:
    """One seed of what is left, without any claim.

    Returns:
        State-based recall under the next recipes of families that the first took nowhere near the
        end, with other mixers and in other settings; associative recall by state size;
        hops by loops; a needle by length; windows by distance; words over all elements.
    """
    others = [recall_by_rank(name, rank) for name in SECOND_THOUGHTS for rank in (2, 3)]
    configs = (
        *others,
        *more_mixers(),
        *other_settings(),
        *state_sizes(),
        *hops(),
        *needles(),
        *reaches(),
    )
    configs += all_letters()
    return tuple(_cell(4, config, exploratory=True, expected_steps=200) for config in configs)


def _recall(family: str, num_loops: int, **changes: Any) -> Arm:
    return lambda seed: recall(family, num_loops=num_loops, seed=seed, **changes)


def _word(
    group: str,
    num_loops: int,
    loop_state: LoopState = "rescan",
    *,
    beta2: bool = True,
    pattern: str = "deltanet",
    settled: bool = False,
) -> Arm:
    return lambda seed: words(
        group,
        num_loops=num_loops,
        loop_state=loop_state,
        negative_eigenvalues=beta2,
        pattern=pattern,
        letters="all" if group == "S3" else "generators",
        settled=settled,
        seed=seed,
    )


def _both(group: str, num_loops: int, *, beta2: bool = True, settled: bool = False) -> list[Arm]:
    return [_word(group, num_loops, state, beta2=beta2, settled=settled) for state in STATES]


def _parity(num_loops: int, loop_state: LoopState = "rescan", *, beta2: bool = True) -> Arm:
    return lambda seed: long_parity(
        num_loops=num_loops, loop_state=loop_state, negative_eigenvalues=beta2, seed=seed
    )


def _block(
    block: int,
    comparisons: Sequence[Sequence[Arm]],
    *,
    expected_steps: int = 400,
    seeds: Sequence[int] | None = None,
) -> Cells:
    """Cells of one block; a comparison has `SEEDS` seeds, or as many as `seeds` says of it."""
    numbers = [SEEDS] * len(comparisons) if seeds is None else seeds
    return tuple(
        _cell(block, arm(seed), priority=place, expected_steps=expected_steps)
        for place, (arms, count) in enumerate(zip(comparisons, numbers, strict=True))
        for seed in range(count)
        for arm in arms
    )


def _cell(block: int, config: CurriculumConfig, **fields: Any) -> Cell:
    name, shares = f"{config.label}-s{config.seed}", measured_shares(config)
    if (found := measured_steps(config)) is not None:
        fields["expected_steps"] = found
    return Cell(name=name, block=block, config=config, shares=shares, **fields)
