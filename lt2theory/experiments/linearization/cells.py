"""The cells of the studies of linearization: teachers, students and selections of layers, as data.

A cell may build on others: a student on the cell that trained its teacher, a hybrid on the cell
that selected its layers. It knows them as a whole, so that its hash changes with theirs.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import Field

from lt2theory.experiments.cells import in_order
from lt2theory.fields import Frozen
from lt2theory.linearize.evaluation import EvaluationConfig
from lt2theory.linearize.recipe import Recipe
from lt2theory.linearize.selection import SelectionConfig
from lt2theory.linearize.stages import Stage
from lt2theory.runs import StudyRun, study_run
from lt2theory.training.lm import LmConfig

KIND = "linearize-cell"
REAL = "SmolLM2-135M-Instruct (Q4_1)"
"""The teacher that comes from outside; the path to it is an option."""
STAGE_WITH_CHOICE = "hybrid"
"""The stage that restores the layers which a selection has chosen."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.=+-]*")


class TeacherWork(Frozen):
    """Train a teacher, and measure it."""

    kind: Literal["teacher"] = "teacher"
    config: LmConfig = Field(description="The run, without its corpus.")


class StudentWork(Frozen):
    """Make a student by a recipe, and measure it beside its teacher."""

    kind: Literal["student"] = "student"
    recipe: Recipe = Field(description="How; of layers that a selection chooses it names none.")


class SelectionWork(Frozen):
    """Align an all-linear student, and choose the layers that keep softmax."""

    kind: Literal["selection"] = "selection"
    recipe: Recipe = Field(description="The alignment.")
    selection: SelectionConfig = Field(description="How layers are chosen.")


Work = TeacherWork | StudentWork | SelectionWork


@dataclass(frozen=True, kw_only=True)
class LinearCell:
    """One cell.

    Attributes:
        name: What a command line calls it, such as `mixers-gdn-s0`.
        study: The study that it belongs to.
        block: Place of that study among all, from 1; teachers have 1.
        arm: The arm; cells of one arm differ in the seed alone.
        work: What is done.
        evaluation: What is measured at the end.
        teacher: The cell that trains its teacher; None for the real one, and for teachers.
        selection: The cell that chooses the layers which keep softmax.
        facts: What places the arm in tables: `mixer`, `budget`, `size` and the like.
        exploratory: One seed and no claim.
        priority: Order within the study.
    """

    name: str
    study: str
    block: int
    arm: str
    work: Work
    evaluation: EvaluationConfig
    teacher: "LinearCell | None" = None
    selection: "LinearCell | None" = None
    facts: Mapping[str, str | int | float] = field(default_factory=dict)
    exploratory: bool = False
    priority: int = 0

    def __post_init__(self) -> None:
        """Check what goes together.

        Raises:
            ValueError: A field is not allowed.
        """
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"name: got {self.name!r}, allowed are letters, digits and any of .=+- after them"
            )
        if isinstance(self.work, TeacherWork) and (self.teacher or self.selection):
            raise ValueError(f"teacher: {self.name} trains one itself (must be None)")
        for place, kind in (("teacher", "teacher"), ("selection", "selection")):
            one = getattr(self, place)
            if one is not None and one.work.kind != kind:
                raise ValueError(f"{place}: {one.name} is a cell of kind {one.work.kind!r}")

    @property
    def needs(self) -> tuple["LinearCell", ...]:
        """Cells that must be done before."""
        return tuple(one for one in (self.teacher, self.selection) if one is not None)

    @property
    def is_real(self) -> bool:
        """Whether it learns from the real teacher."""
        return self.teacher is None and not isinstance(self.work, TeacherWork)

    @property
    def seed(self) -> int:
        """Seed of the cell."""
        work = self.work
        return work.config.seed if isinstance(work, TeacherWork) else work.recipe.seed

    @property
    def reads_chat(self) -> bool:
        """Whether a stage reads conversations."""
        if isinstance(self.work, TeacherWork):
            return False
        return any(stage.data == "chat" for stage in self.work.recipe.stages)

    @property
    def tokens(self) -> int:
        """Tokens that it learns from, a selection's short runs apart."""
        work = self.work
        if isinstance(work, TeacherWork):
            return work.config.total_steps * work.config.tokens_per_step
        return sum(
            stage_steps(stage) * stage.batch_size * stage.sequence_length
            for stage in work.recipe.stages
        )

    def to_json(self) -> dict[str, Any]:
        """All that decides the cell's numbers but for texts and the real teacher.

        Returns:
            Plain JSON values; of the cells that it needs the hashes.
        """
        told: dict[str, Any] = self.work.model_dump(mode="json")
        needs = {place: getattr(self, place) for place in ("teacher", "selection")}
        return {
            "study": self.study,
            "work": told,
            "evaluation": self.evaluation.model_dump(mode="json"),
            "needs": {place: one.run().hash for place, one in needs.items() if one is not None},
        }

    def run(self) -> StudyRun:
        """The cell in a study's manifest.

        Returns:
            Its folder, hash, identity and configuration.
        """
        identity = {"label": f"{self.study}-{self.arm}", "seed": self.seed, "task": "linearize"}
        return study_run(self.to_json(), identity)

    def columns(self) -> dict[str, Any]:
        """What names the cell in the table.

        Returns:
            Plain values.
        """
        return {
            "study": self.study,
            "cell": self.name,
            "block": self.block,
            "arm": self.arm,
            "seed": self.seed,
            "exploratory": self.exploratory,
            "teacher": REAL if self.is_real else self.teacher.name if self.teacher else self.name,
            "mixer": self.facts.get("mixer"),
            "size": self.facts.get("size"),
            "budget": self.facts.get("budget"),
            "tokens": self.tokens,
        }


LinearCells = tuple[LinearCell, ...]


def stage_steps(stage: Stage) -> int:
    """Optimiser steps of a stage.

    Args:
        stage: The stage.

    Returns:
        Its steps, or those in which it reads its tokens.
    """
    if stage.steps is not None:
        return stage.steps
    assert stage.tokens is not None
    return -(-stage.tokens // (stage.batch_size * stage.sequence_length))


def with_needs(cells: Iterable[LinearCell]) -> LinearCells:
    """Cells, and before them all that they need.

    Args:
        cells: The cells.

    Returns:
        Each once, in the order in which they are carried out.
    """
    found: dict[str, LinearCell] = {}

    def visit(cell: LinearCell) -> None:
        for one in cell.needs:
            visit(one)
        found.setdefault(cell.name, cell)

    for cell in cells:
        visit(cell)
    return in_order(tuple(found.values()))
