"""What finished cells took of a GPU, whole cells counted.

Steps alone are the smaller part of a cell: evaluations, confirmations, tests and starts are in the
numbers here. Of word problems and parity on one block one number serves all lengths: at 32 tokens a
step takes 0.8 to 2.4 times what it takes at 8, by loops, where products grow fourfold
(results/study-throughput-h200.json). State-based recall follows the products of its steps.
"""

from typing import NamedTuple

from lt2theory.experiments.cells import Cell


class Arm(NamedTuple):
    """What tells the costs of cells apart.

    Attributes:
        task: Its registry name.
        mixers: Those of the model, sorted, with plus signs between.
        num_loops: Loops T.
        loop_state: `rescan` or `accumulate`; `rescan` for T = 1.
    """

    task: str
    mixers: str
    num_loops: int
    loop_state: str


FINISHED: dict[Arm, float] = {
    Arm("group_word", "deltanet", 1, "rescan"): 2.78,
    Arm("group_word", "deltanet", 2, "rescan"): 2.81,
    Arm("group_word", "deltanet", 2, "accumulate"): 2.84,
    Arm("group_word", "deltanet", 4, "rescan"): 4.18,
    Arm("group_word", "deltanet", 4, "accumulate"): 4.34,
    Arm("group_word", "gla", 1, "rescan"): 1.72,
    Arm("group_word", "gla", 2, "rescan"): 1.79,
    Arm("group_word", "hgrn2", 1, "rescan"): 1.70,
    Arm("group_word", "hgrn2", 2, "rescan"): 1.90,
    Arm("group_word", "mamba2", 1, "rescan"): 1.75,
    Arm("group_word", "mamba2", 2, "rescan"): 2.12,
    Arm("group_word", "retnet", 1, "rescan"): 2.47,
    Arm("group_word", "retnet", 2, "rescan"): 3.74,
    Arm("parity", "deltanet", 1, "rescan"): 2.50,
    Arm("parity", "deltanet", 2, "rescan"): 2.83,
    Arm("parity", "deltanet", 2, "accumulate"): 2.34,
}
"""Milliseconds of an H200 a step, one block: device seconds of an arm's finished cells of block 2
over their steps (results/study.parquet, results/study-throughput-h200.json), four cells at a time
in a process. Single cells differ from their arm's number by 20 to 40 %."""

SEARCHED: dict[Arm, float] = {
    Arm("group_word", "deltanet", 1, "rescan"): 1.1,
    Arm("group_word", "deltanet", 4, "rescan"): 1.4,
    Arm("group_word", "deltanet", 4, "accumulate"): 1.5,
}
"""The same of the cells of a search, which have no test: means over `tune-s5`
(results/study-throughput-h200.json)."""

STEP_MS = 6.59
"""Of a step of state-based recall on an H200, all that goes with it, whatever its products."""
TFLOP_MS = 6.76
"""Of 1e12 multiplications and additions of such a step. With `STEP_MS` the least squares of the
device seconds of the 27 finished cells of block 1 by their steps and products
(results/study.parquet), three to six cells at a time. The 27 together are priced to within 4 %,
single ones at 0.5 to 1.6 times what they took. Neither loops nor mixers beside their products fit
better. The searches at 1 to 8 swaps, which are not among the 27, took 8.97 ms a step
(results/study-throughput-h200.json), 9.2 by these."""

RECALLED = frozenset(
    Arm("state_based_recall", mixers, num_loops, "rescan")
    for mixers, loops in {
        "full": (1, 4),
        "full+gdn": (1, 4),
        "gdn": (1, 4),
        "gdn+window": (1, 4),
        "gdn+nsa": (4,),
    }.items()
    for num_loops in loops
)
"""The arms of those 27 cells."""


def arm_of(cell: Cell) -> Arm:
    """What tells a cell's cost apart.

    Args:
        cell: A cell.

    Returns:
        Its task, mixers, loops and loop state.
    """
    model = cell.resolved.model
    mixers = "+".join(sorted({spec.mixer for loop in model.loops for spec in loop}))
    return Arm(cell.resolved.task.name, mixers, model.num_loops, model.loop_state)


def one_block_ms(cell: Cell) -> tuple[float, bool]:
    """What a step of a cell of one block takes of an H200, all else with it.

    Args:
        cell: A cell, of whatever sizes and lengths.

    Returns:
        Milliseconds, and whether they are an estimate: where no cells of its arm are finished, the
        mean over finished arms with the number of loops that is nearest.
    """
    arm = arm_of(cell)
    known = FINISHED if cell.config.test else SEARCHED
    if arm in known:
        return known[arm], False
    away = min(abs(other.num_loops - arm.num_loops) for other in FINISHED)
    near = [ms for other, ms in FINISHED.items() if abs(other.num_loops - arm.num_loops) == away]
    return sum(near) / len(near), True
