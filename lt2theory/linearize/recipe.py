"""Recipes: which student, how it starts, and the stages that train it."""

import json
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from lt2theory.cards import config_card, listing
from lt2theory.fields import Frozen, check_one_line
from lt2theory.linearize.hybrids import restored_config, student_config
from lt2theory.linearize.stages import Stage
from lt2theory.linearize.starts import Start
from lt2theory.models import LoopedConfig


class Recipe(Frozen):
    """A linearization but for its teacher and its text."""

    name: str = Field(min_length=1, description="Name of the arm, for tables and figures.")
    pattern: str = Field(
        "gdn", description="Mixers of the student, such as one of the seven of STUDENT_MIXERS."
    )
    changes: dict[str, bool | int | float | str | None] = Field(
        default_factory=dict,
        description="Further fields of the student's model that differ from the teacher's, such as "
        "linear_rotation or conv_width.",
    )
    start: Start = Field(default_factory=Start, description="How linear mixers start.")
    calibration_windows: int = Field(
        4, ge=1, le=4096, description="Windows of the train split that the start is fitted to."
    )
    calibration_length: int = Field(512, ge=2, le=2**20, description="Tokens of such a window.")
    stages: tuple[Stage, ...] = Field(min_length=1, description="The stages, in order.")
    recovery_windows: int = Field(
        16,
        ge=0,
        le=4096,
        description="Windows of the eval split on which student and teacher are compared before "
        "the first stage and after each; 0 for none.",
    )
    recovery_length: int = Field(512, ge=2, le=2**20, description="Tokens of such a window.")
    dtype: Literal["float32", "bfloat16", "float64"] = Field(
        "float32", description="As in a run of lt2 train: bfloat16 multiplies under autocast."
    )
    seed: int = Field(
        0, ge=0, lt=2**63, description="Seed of what is drawn and of the order of windows."
    )

    def _repr_html_(self) -> str:
        """What a notebook shows: the recipe, and its stages in order."""
        columns = ("stage", "minimises", "trains", "restores", "reads", "windows a step", "rate")
        rows = [
            (
                stage.name,
                stage.objective.kind,
                stage.trained,
                ", ".join(map(str, stage.restore)),
                f"{stage.steps} steps" if stage.tokens is None else f"{stage.tokens} tokens",
                f"{stage.batch_size} of {stage.sequence_length}",
                stage.optimiser.learning_rate,
            )
            for stage in self.stages
        ]
        return config_card(self, "pattern", without=("stages",)) + listing("Stages", columns, rows)

    @field_validator("stages")
    @classmethod
    def _distinct(cls, stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
        names = [stage.name for stage in stages]
        if len(set(names)) < len(names):
            raise ValueError(f"{names} is not allowed (stages must have different names)")
        return stages

    @field_validator("changes")
    @classmethod
    def _of_other_fields(cls, changes: dict[str, Any]) -> dict[str, Any]:
        if "pattern" in changes:
            raise ValueError("'pattern' is not allowed (it is a field of the recipe)")
        return changes

    @model_validator(mode="after")
    def _check(self) -> "Recipe":
        check_one_line("name", self.name)
        restored = [layer for stage in self.stages for layer in stage.restore]
        if len(set(restored)) < len(restored):
            raise ValueError(f"stages: a layer is restored twice ({sorted(restored)})")
        return self

    def students(self, teacher: LoopedConfig) -> tuple[LoopedConfig, ...]:
        """Configs of the student: as it starts, and in each stage.

        Args:
            teacher: Config of the teacher.

        Returns:
            One more than there are stages.

        Raises:
            ValueError: The pattern or a change does not fit the teacher, or a restored layer does
                not exist.
        """
        found = [student_config(teacher, self.pattern, **self.changes)]
        for stage in self.stages:
            try:
                found.append(restored_config(found[-1], teacher, stage.restore))
            except ValueError as error:
                raise ValueError(f"stages: {stage.name!r}: {error}") from error
        return tuple(found)

    def to_json(self) -> dict[str, Any]:
        """The recipe as a run folder stores it.

        Returns:
            Plain JSON values, from which `model_validate` makes an equal recipe.
        """
        return self.model_dump(mode="json")


def read_recipe(path: Path) -> Recipe:
    """Read a recipe from a file.

    Args:
        path: A .toml or .json file with the fields of `Recipe`.

    Returns:
        The recipe.

    Raises:
        ValueError: The file cannot be read, or a field is refused; pydantic names it.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix not in (".toml", ".json"):
            raise ValueError("must end in .toml or .json")
        told = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    # Parse errors of both formats are ValueErrors, but for values nested without end.
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"recipe: {str(path)!r} cannot be read ({error})") from None
    if not isinstance(told, dict):
        raise ValueError(f"recipe: {str(path)!r} cannot be read (must hold an object)")
    return Recipe.model_validate(told)
