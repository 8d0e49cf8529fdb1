"""Alignment: mixers or whole blocks of the student give what the teacher's give at each place."""

import math
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from lt2theory.linearize.alike import check_alike
from lt2theory.linearize.forcing import Forced, force, student_after, student_mixed
from lt2theory.linearize.objectives import ObjectiveConfig, TeacherObjective
from lt2theory.linearize.views import block_at
from lt2theory.mixers.base import at_least_float32
from lt2theory.models import LoopedModel

Distance = Literal["mse", "norm"]


class Alignment(ObjectiveConfig):
    """Stages 1 and 2 of arXiv 2504.14366: attention outputs, then hidden states.

    The loss is summed over layers and averaged over loops, tokens and channels: a block that is
    shared by T loops is not trained T times as hard.
    """

    kind: Literal["alignment"] = "alignment"
    target: Literal["mixer", "stream", "block"] = Field(
        "mixer",
        description="What is compared: outputs of the mixers after their output projection; the "
        "residual stream that each mixer has been added to, behind a sandwich norm where there is "
        "one; or the stream after each block, before any final norm.",
    )
    distance: Distance = Field(
        "mse",
        description="Mean square over channels, or the Euclidean norm times width^-1/2, which is "
        "less ruled by single large channels.",
    )
    whole: ClassVar[str] = "an alignment of single mixers"

    def build(self, student: LoopedModel, teacher: LoopedModel) -> "AlignmentObjective":
        """As in `ObjectiveConfig`.

        Args:
            student: The student.
            teacher: The teacher.

        Returns:
            The objective.

        Raises:
            ValueError: The two have other shapes.
        """
        _check_shapes(student, teacher)
        return AlignmentObjective(student, teacher, self)


class AlignmentObjective(TeacherObjective):
    """What `Alignment` minimises.

    Args:
        student: The student.
        teacher: The teacher.
        config: What is compared, and how.
    """

    repeats = True

    def __init__(self, student: LoopedModel, teacher: LoopedModel, config: Alignment) -> None:
        super().__init__(student, teacher)
        self.config = config

    def forward(
        self,
        inputs: Int[Tensor, "b t"],
        targets: Int[Tensor, "b t"],
        documents: Int[Tensor, "b t"] | None,
        *,
        label_share: float | Tensor,
        row_share: float,
    ) -> tuple[Float[Tensor, ""], dict[str, Tensor]]:
        """As in `StepObjective`: a mean over all tokens, whether or not they have a label.

        Args:
            inputs: Ids.
            targets: Not read.
            documents: Documents of the inputs, or None.
            label_share: Not read.
            row_share: The windows' share of the step's.

        Returns:
            The contribution, and `loss` and `relative_error`: the mean square of the differences
            over that of the targets, over all places; of several loops `loop_<n>_error` too.
        """
        losses: list[Tensor] = []
        errors: dict[int, list[Tensor]] = {}

        def visit(place: Forced) -> None:
            if not _is_new(self.model, self.teacher, place):
                return
            own, target = self._compared(place)
            losses.append(distance(own, target, self.config.distance))
            error = _relative_error(own.detach(), target)
            errors.setdefault(place.loop, []).append(error)

        force(self.teacher, self.model, inputs, documents, visit)
        total = torch.stack(losses).sum() / self.model.config.num_loops * row_share
        by_loop = {loop: torch.stack(found) for loop, found in errors.items()}
        seen = {"loss": total.detach()}
        seen["relative_error"] = torch.cat(list(by_loop.values())).mean() * row_share
        if len(by_loop) > 1:
            for loop, found in by_loop.items():
                seen[f"loop_{loop + 1}_error"] = found.mean() * row_share
        return total, seen

    def _compared(self, place: Forced) -> tuple[Tensor, Tensor]:
        """What the student gives at a place, and what it should."""
        if self.config.target == "block":
            return student_after(self.model, place), place.after
        own, target = student_mixed(self.model, place), place.mixed
        if self.config.target == "mixer":
            return own, target
        blocks = (block_at(model, place.layer) for model in (self.model, self.teacher))
        added, wanted = (
            place.before
            + (change if block.mixer_post_norm is None else block.mixer_post_norm(change))
            for block, change in zip(blocks, (own, target), strict=True)
        )
        return added, wanted


def distance(
    own: Float[Tensor, "b t d"], target: Float[Tensor, "b t d"], kind: Distance
) -> Float[Tensor, ""]:
    """How far two streams are apart, a mean over tokens, in at least float32.

    Args:
        own: The student's.
        target: The teacher's.
        kind: `mse` or `norm`.

    Returns:
        `mean |own - target|^2 / d`, or `mean |own - target| / sqrt(d)`.
    """
    difference = at_least_float32(own) - at_least_float32(target)
    if kind == "mse":
        return difference.square().mean()
    # The least number keeps the gradient finite where a block is its teacher's already.
    size = difference.square().sum(-1).clamp_min(torch.finfo(difference.dtype).tiny).sqrt()
    mean: Tensor = size.mean() / math.sqrt(difference.shape[-1])
    return mean


def _is_new(student: LoopedModel, teacher: LoopedModel, place: Forced) -> bool:
    """Whether the student's mixer at a place is of another kind than the teacher's."""
    return (
        student.config.loops[place.loop][place.layer]
        != (teacher.config.loops[place.loop][place.layer])
    )


def _relative_error(own: Tensor, target: Tensor) -> Tensor:
    scale = at_least_float32(target).square().mean()
    return distance(own, target, "mse") / scale


def _check_shapes(student: LoopedModel, teacher: LoopedModel) -> None:
    """Refuse models whose places are not each other's.

    Raises:
        ValueError: A field differs.
    """
    fields = ("width", "num_layers", "num_loops", "sandwich_norm", "norm_between_loops")
    check_alike(student.config, teacher.config, *fields)
    if student.config.loops == teacher.config.loops:
        raise ValueError(
            f"pattern: {student.config.pattern!r} of the student is the teacher's: no mixer is "
            "left to align"
        )
