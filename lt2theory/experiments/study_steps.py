"""How many steps the stages of a curriculum take, as far as cells of the study have shown it."""

from lt2theory.training import CurriculumConfig

STEPS_A_STAGE = {"group_word": 892, "parity": 425}
"""Steps of the finished cells of block 2 over the stages that they asked for, by task
(results/study.parquet); without arms that stay at a stage for longer (`settled`, `exact`). A cell
that fails a stage takes the cap there and none on later ones."""

RECALL_STEPS = {1: 550, 2: 150, 4: 350, 8: 350, 16: 400, 32: 550, 64: 950, 128: 1950}
"""Steps of the finished cells `recall-gdn-window-t4-s0` and `-s1` by swaps, added up
(results/study.parquet). The cell of seed 2 had taken 3,950 on 128 swaps when it was stopped."""


def measured_shares(config: CurriculumConfig) -> tuple[float, ...] | None:
    """How the steps of a run are expected to lie on its stages.

    Args:
        config: A run with its stages.

    Returns:
        A number a stage for state-based recall, whatever the mixers and the setting: that these
        are as GDN+Window's is assumed. None for other tasks, of which nothing was measured.
    """
    stages = config.stages
    if config.task.name != "state_based_recall" or not stages or set(stages) - set(RECALL_STEPS):
        return None
    return tuple(float(RECALL_STEPS[stage]) for stage in stages)


def measured_steps(config: CurriculumConfig) -> int | None:
    """How many steps a stage of a run is expected to take, the mean over the stages.

    Args:
        config: A run.

    Returns:
        The number for word problems and parity on one block, whatever the arm; None for others.
    """
    return STEPS_A_STAGE.get(config.task.name) if config.model.num_layers == 1 else None
