"""What is learnt: curricula of synthetic tasks with exact labels, splits and floors.

A batch is a pure function of the task, its knobs and (stage, split, seed, index, size). NumPy only.

Example:
    >>> import tasks
    >>> task = tasks.create("parity")
    >>> inputs, targets, mask = task.batch(stage=16, split="eval", seed=0, index=3, size=8)
    >>> bool((targets[:, -1] == inputs.sum(axis=1) % 2).all())
    True
"""

from tasks.base import Batch as Batch
from tasks.base import Task as Task
from tasks.catalogue import catalogue as catalogue
from tasks.catalogue import create as create
from tasks.export import export as export

__all__ = ["Batch", "Task", "catalogue", "create", "export"]
