"""The tasks by name. A new task is one file and one line here."""

import dataclasses

from tasks.base import Task
from tasks.distance_probe import DistanceProbe
from tasks.dyck import Dyck
from tasks.group_word import GroupWord
from tasks.modular_addition import ModularAddition
from tasks.modular_arithmetic import ModularArithmetic
from tasks.mqar import Mqar
from tasks.multi_hop_variables import MultiHopVariables
from tasks.names import Named, unknown_name
from tasks.needle import Needle
from tasks.noisy_recall import NoisyRecall
from tasks.p_hop import PHop
from tasks.parity import Parity
from tasks.pointer_swaps import PointerSwaps
from tasks.selective_copy import SelectiveCopy
from tasks.state_based_recall import StateBasedRecall
from tasks.validation import check_values

_TASKS: tuple[type[Task], ...] = (
    Parity,
    ModularAddition,
    GroupWord,
    PointerSwaps,
    Mqar,
    DistanceProbe,
    StateBasedRecall,
    PHop,
    SelectiveCopy,
    NoisyRecall,
    Needle,
    MultiHopVariables,
    Dyck,
    ModularArithmetic,
)


def catalogue() -> dict[str, type[Task]]:
    """All tasks.

    Returns:
        The class of each task by its name; the fields of the class are the task's knobs.

    Example:
        >>> list(catalogue())[:3]
        ['parity', 'modular_addition', 'group_word']
    """
    return Named("task", {task.name: task for task in _TASKS})


def create(name: str, **knobs: object) -> Task:
    """Make a task.

    Args:
        name: A name in the catalogue.
        knobs: Values for its knobs; those not given keep their defaults.

    Returns:
        The task.

    Raises:
        ValueError: The name or a knob is unknown, or a value lies outside its range.

    Example:
        >>> create("group_word", group="A5").vocab_size
        60
    """
    task = catalogue().get(name)
    if task is None:
        raise ValueError(unknown_name("task", name, catalogue()))
    allowed = [field.name for field in dataclasses.fields(task)]
    for knob in knobs:
        if knob not in allowed:
            if not allowed:
                raise ValueError(f"knob: {knob!r} is not allowed ({name} has no knobs)")
            raise ValueError(unknown_name(f"knob of {name}", knob, allowed))
    check_values(task, knobs)
    return task(**knobs)
