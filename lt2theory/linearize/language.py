"""Plain language modelling: continuation on longer texts, and instruction tuning."""

from typing import Literal

from pydantic import Field

from lt2theory.linearize.objectives import ObjectiveConfig
from lt2theory.models import LoopedModel
from lt2theory.training.lm.objective import LmObjective


class LanguageModelling(ObjectiveConfig):
    """Cross-entropy alone, over loops as the student's `loop_loss` says; no teacher is run.

    On text it is the last stage of most recipes, with longer windows than before. On conversations
    it is instruction tuning: only answers have labels.
    """

    kind: Literal["language"] = "language"
    auxiliary_weight: float = Field(
        1.0, ge=0, description="Weight of the losses that parts of the model have of their own."
    )

    def build(self, student: LoopedModel, teacher: LoopedModel) -> LmObjective:
        """As in `ObjectiveConfig`.

        Args:
            student: The student.
            teacher: Not read.

        Returns:
            The objective.
        """
        return LmObjective(student, self.auxiliary_weight)
