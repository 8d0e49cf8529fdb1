"""Which instances a run trains, evaluates, confirms and tests on: pure functions of its step."""

from typing import Literal

import numpy as np
from jaxtyping import Bool, UInt

from lt2theory.training.config import CurriculumConfig
from tasks import Batch, Task

TEST_SEED = 0
"""All runs of a stage are tested on the same instances, so that arms and seeds compare in pairs."""


def training_batch(task: Task, config: CurriculumConfig, stage: int, step: int) -> Batch:
    """Examples of one training step.

    Args:
        task: The task.
        config: Size and seed.
        stage: The stage that is trained.
        step: Steps done, over all stages.

    Returns:
        A batch of the train split.
    """
    return task.batch(
        stage=stage, split="train", seed=config.seed, index=step, size=config.batch_size
    )


def evaluation_batch(task: Task, config: CurriculumConfig, stage: int, step: int) -> Batch:
    """Instances of the evaluation after a step, fresh at every step.

    Args:
        task: The task.
        config: Size and seed.
        stage: The stage.
        step: Steps done, over all stages.

    Returns:
        A batch of the eval split; all of the split where it holds fewer than asked.
    """
    size = available(task, stage, "eval", config.evaluation_size)
    return task.batch(stage=stage, split="eval", seed=config.seed, index=2 * step, size=size)


def confirmation_batch(
    task: Task, config: CurriculumConfig, stage: int, step: int
) -> tuple[Batch, bool]:
    """Instances that confirm the evaluation after the same step, and are not among its own.

    Args:
        task: The task.
        config: Sizes and seed.
        stage: The stage.
        step: Steps done, over all stages.

    Returns:
        A batch of the eval split, and whether it shares no instance with the evaluation. It does
        where the split holds too few for both: then it is as many as asked, or all of the split.
    """
    size, seed, index = config.confirmation_size, config.seed, 2 * step + 1
    wanted = config.evaluation_size + size
    if available(task, stage, "eval", wanted) < wanted:
        size = available(task, stage, "eval", size)
        batch = task.batch(stage=stage, split="eval", seed=seed, index=index, size=size)
        return batch, False
    seen = task.instances(
        stage=stage, split="eval", seed=seed, index=index - 1, size=config.evaluation_size
    )
    codes = task.instances(stage=stage, split="eval", seed=seed, index=index, size=wanted)
    batch = task.batch(stage=stage, split="eval", seed=seed, index=index, size=wanted)
    rows = np.flatnonzero(~rows_in(codes, seen))[:size]
    return Batch(*(array[rows] for array in batch)), True


def held_out_batch(task: Task, config: CurriculumConfig, stage: int) -> Batch:
    """Instances of the test of a stage, the same for every run.

    Args:
        task: The task.
        config: The size.
        stage: The stage.

    Returns:
        A batch of the test split; all of the split where it holds fewer than asked.
    """
    size = available(task, stage, "test", config.test_size)
    return task.batch(stage=stage, split="test", seed=TEST_SEED, index=0, size=size)


def available(task: Task, stage: int, split: Literal["eval", "test"], size: int) -> int:
    """How many distinct instances can be had.

    Args:
        task: The task.
        stage: The stage.
        split: "eval" or "test".
        size: How many are wanted.

    Returns:
        `size`, or what the split holds if that is fewer.
    """
    held = task.split_count(stage, split)
    return size if held is None else min(size, held)


def rows_in(
    rows: UInt[np.ndarray, "n width"], others: UInt[np.ndarray, "m width"]
) -> Bool[np.ndarray, "n"]:
    """Which rows occur among other rows.

    Args:
        rows: Codes of instances.
        others: Codes of instances.

    Returns:
        One truth value for each of `rows`.
    """
    _, names = np.unique(np.concatenate([rows, others]), axis=0, return_inverse=True)
    return np.isin(names[: len(rows)], names[len(rows) :])
