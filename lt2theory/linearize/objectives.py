"""The protocol of stages: how an objective is configured and made.

A linearization is a row of stages. Each is a run of the text trainer (`lt2theory.training.lm`)
whose model is the student as the stage before left it, and whose objective is made by an
`ObjectiveConfig`. A new objective takes two steps: a subclass of `ObjectiveConfig` with its own
`kind`, whose `build` returns a `StepObjective`, and its name in the union
`lt2theory.linearize.stages.Objective`. Everything else (windows, optimiser, schedule, checkpoints,
several processes, evaluations, exact resuming) is the trainer's.
"""

from abc import abstractmethod
from typing import ClassVar

from lt2theory.fields import Frozen
from lt2theory.models import LoopedModel
from lt2theory.training.lm.objective import StepObjective


class ObjectiveConfig(Frozen):
    """What a stage minimises; the fields of a subclass are part of the stage's hash.

    A subclass has a field `kind: Literal["..."] = "..."`, by which it is told from the others.

    Attributes:
        whole: What needs whole weights in every process, in words, as where parts of a block are
            called on their own; nothing if sharding is fine. See `choose_parallel`.
    """

    whole: ClassVar[str] = ""

    @abstractmethod
    def build(self, student: LoopedModel, teacher: LoopedModel) -> StepObjective:
        """Make the objective.

        Args:
            student: The student, which is trained: the objective's submodule `model`.
            teacher: The teacher, frozen and on the same device. It is no submodule, or it would be
                trained and sharded: `TeacherObjective` holds it.

        Returns:
            The objective. It sees `place` before each call: the step, of how many, and the row.

        Raises:
            ValueError: The two models do not fit it.
        """


class TeacherObjective(StepObjective):
    """An objective that reads a teacher.

    Args:
        student: What is trained.
        teacher: What is learnt from.
    """

    def __init__(self, student: LoopedModel, teacher: LoopedModel) -> None:
        super().__init__(student)
        self._teacher = (teacher,)  # in a tuple, where torch looks for no submodule

    @property
    def teacher(self) -> LoopedModel:
        """The teacher, frozen."""
        return self._teacher[0]
