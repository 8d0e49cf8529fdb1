"""Stages of a linearization: what each minimises, on which text, and what of the student it trains.

See `lt2theory.linearize.objectives` for the protocol of objectives.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from lt2theory.fields import Frozen
from lt2theory.linearize.alignment import Alignment
from lt2theory.linearize.distillation import Distillation
from lt2theory.linearize.hybrid_distillation import HybridDistillation
from lt2theory.linearize.language import LanguageModelling
from lt2theory.linearize.views import mixer_of
from lt2theory.mixers import MIXERS, LinearMixer
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.training.lm import LmConfig, LmOptimiserConfig

Objective = Annotated[
    Alignment | Distillation | HybridDistillation | LanguageModelling,
    Field(discriminator="kind"),
]
"""Every objective that a stage may have."""

Trained = Literal["mixers", "linear_mixers", "blocks", "all"]


class Stage(Frozen):
    """One stage: a run of its own, which begins with the student of the stage before."""

    name: str = Field(
        pattern=r"^[a-z0-9][a-z0-9-]*$", description="Its name, and that of its folder."
    )
    objective: Objective = Field(description="What is minimised.")
    trained: Trained = Field(
        "all",
        description="What is trained: mixers, only the linear ones, whole blocks, or everything.",
    )
    other_rate: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Factor on the learning rate of what is trained and is no mixer.",
    )
    restore: tuple[int, ...] = Field(
        (),
        description="Layers that get the teacher's mixers back when the stage begins, in all "
        "loops; they stay so in the stages after it.",
    )
    data: Literal["text", "chat"] = Field(
        "text", description="Windows of the corpus, or conversations, whose answers are learnt."
    )
    steps: int | None = Field(None, ge=1, description="Optimiser steps; give these or tokens.")
    tokens: int | None = Field(None, ge=1, description="Tokens to read.")
    batch_size: int = Field(32, ge=1, le=2**20, description="Windows of a step.")
    sequence_length: int = Field(512, ge=2, le=2**24, description="Tokens of a window.")
    optimiser: LmOptimiserConfig = Field(
        default_factory=LmOptimiserConfig, description="How it is optimised."
    )
    log_every: int = Field(10, ge=1, description="Steps between two records of training.")
    evaluate_every: int = Field(
        0, ge=0, description="Steps between two evaluations on the eval split; 0 for never."
    )
    evaluation_documents: int | None = Field(
        None, ge=1, description="Read only so many documents of the eval split, the first."
    )

    @field_validator("restore")
    @classmethod
    def _in_order(cls, layers: tuple[int, ...]) -> tuple[int, ...]:
        if list(layers) != sorted(set(layers)):
            raise ValueError(f"{list(layers)} is not allowed (name each layer once, ascending)")
        return layers

    @model_validator(mode="after")
    def _check(self) -> "Stage":
        if (self.steps is None) == (self.tokens is None):
            raise ValueError(
                f"steps: got {self.steps} with tokens {self.tokens}; give one of the two"
            )
        return self

    def run(self, model: LoopedConfig, *, seed: int, dtype: str) -> LmConfig:
        """The configuration of the stage's run.

        Args:
            model: The student, with the layers restored that this stage restores.
            seed: Seed of the order of windows.
            dtype: As in `LmConfig`.

        Returns:
            The configuration, not yet resolved against a corpus.

        Raises:
            ValueError: The fields do not fit the model; pydantic names them.
        """
        own: dict[str, Any] = self.model_dump(
            exclude={"name", "objective", "trained", "other_rate", "restore", "data"}
        )
        fixed = {"model": model, "seed": seed, "dtype": dtype, "label": self.name}
        fixed |= {"stability": {"measure_every": 0}}
        return LmConfig.model_validate(own | fixed)

    def prepare(self, student: LoopedModel) -> dict[str, float]:
        """Freeze what the stage does not train.

        Args:
            student: The student; `requires_grad` of its parameters is set.

        Returns:
            The factors of the learning rate, by parameter, where they are not 1.

        Raises:
            ValueError: Nothing would be trained.
        """
        factors = {}
        for name, parameter in student.named_parameters():
            place = place_of(student.config, name)
            parameter.requires_grad_(self.trained in place)
            if parameter.requires_grad and "mixers" not in place:
                factors[name] = self.other_rate
        if not any(parameter.requires_grad for parameter in student.parameters()):
            raise ValueError(
                f"trained: {self.trained!r} is not allowed for stage {self.name!r} (pattern "
                f"{student.config.pattern!r} has none of them)"
            )
        return {name: factor for name, factor in factors.items() if factor != 1.0}


def place_of(config: LoopedConfig, name: str) -> frozenset[str]:
    """What a parameter is part of, in the words of `Stage.trained`.

    Args:
        config: Config of the model.
        name: Name of the parameter.

    Returns:
        The words: `all`, and `blocks`, `mixers` and `linear_mixers` where they hold.
    """
    if not name.startswith("blocks."):
        return frozenset({"all"})
    place = mixer_of(name)
    if place is None:
        return frozenset({"all", "blocks"})
    layer, number = place
    kind = MIXERS[config.mixers_at(layer)[number].mixer]
    linear = {"linear_mixers"} if issubclass(kind, LinearMixer) else set()
    return frozenset({"all", "blocks", "mixers"} | linear)
