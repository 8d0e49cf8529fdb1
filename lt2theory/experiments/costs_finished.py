"""What a step of finished cells of word problems and parity took of a GPU, whole cells counted.

Steps alone are the smaller part of such cells: evaluations, confirmations, tests and starts are in
the numbers here, and one number serves all lengths: at 32 tokens a step takes 0.8 to 2.4 times what
it takes at 8, by loops, where products grow fourfold (results/study-throughput-h200.json).
"""

from typing import NamedTuple

from lt2theory.experiments.cells import Cell


class Arm(NamedTuple):
    """What tells the costs of one-block cells apart.

    Attributes:
        task: `group_word` or `parity`.
        mixer: That of the block.
        num_loops: Loops T.
        loop_state: `rescan` or `accumulate`; `rescan` for T = 1.
    """

    task: str
    mixer: str
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
"""Milliseconds of an H200 a step: device seconds of an arm's finished cells of block 2 over their
steps (results/study.parquet, results/study-throughput-h200.json), four cells at a time in a
process. Single cells differ from their arm's number by 20 to 40 %."""


def arm_of(cell: Cell) -> Arm:
    """What tells a cell's cost apart.

    Args:
        cell: A cell of one block.

    Returns:
        Its task, mixer, loops and loop state.
    """
    config = cell.resolved
    model = config.model
    mixer = model.loops[0][0].mixer
    return Arm(config.task.name, mixer, model.num_loops, model.loop_state)


def finished_ms(cell: Cell) -> float | None:
    """What a step of finished cells like this one took of the GPU's time, all else with it.

    Args:
        cell: A cell, of whatever sizes and lengths.

    Returns:
        Milliseconds; None for more than one block, for other tasks, mixers or loops than those of
        `FINISHED`, and for cells without a test, such as those of a search.
    """
    if cell.resolved.model.num_layers > 1 or not cell.config.test:
        return None
    return FINISHED.get(arm_of(cell))
