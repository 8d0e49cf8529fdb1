"""Parts of what a run is told: its task, and how it is optimised."""

from typing import Literal

from pydantic import Field, model_validator

import tasks
from lt2theory.fields import Frozen


class TaskConfig(Frozen):
    """Which task, with which knobs."""

    name: str = Field(description="Name of the task; 'lt2 tasks list' lists them.")
    knobs: dict[str, bool | int | float | str | None] = Field(
        default_factory=dict,
        description="Options of the task, such as group=S3; 'lt2 tasks show NAME --help' explains "
        "them.",
    )

    def create(self) -> tasks.Task:
        """Build the task.

        Returns:
            The task.

        Raises:
            ValueError: No such task or knob, or a value outside its range.
        """
        return tasks.create(self.name, **self.knobs)


class OptimiserConfig(Frozen):
    """AdamW and its learning-rate schedule, which starts anew at every stage."""

    learning_rate: float = Field(
        3e-3, gt=0, description="Peak learning rate; unused where candidates are given to choose."
    )
    weight_decay: float = Field(
        0.0, ge=0, description="Decoupled weight decay of matrices; vectors have none."
    )
    betas: tuple[float, float] = Field((0.9, 0.95), description="Decay rates of both moments.")
    warmup_steps: int = Field(
        50, ge=0, description="Steps of linear rise at the start of every stage."
    )
    schedule: Literal["constant", "linear", "cosine"] = Field(
        "cosine", description="Course after the rise, reaching its end with the stage's budget."
    )
    final_fraction: float = Field(
        0.1, ge=0, le=1, description="Where the course ends, as a fraction of the peak."
    )
    clip: float | None = Field(
        1.0, gt=0, description="Largest gradient norm; longer gradients are scaled to it."
    )
    auxiliary_weight: float = Field(
        1.0,
        ge=0,
        description="Weight of the losses that parts of the model have of their own, such as "
        "DSA's indexer, beside the language-model loss; at 0 they are not computed.",
    )

    @model_validator(mode="after")
    def _check(self) -> "OptimiserConfig":
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas: got {self.betas}, allowed are numbers in [0, 1)")
        return self
