"""End-to-end distillation: cross-entropy, and the divergence from the teacher at every token."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn import functional as F

from lt2theory.linearize.chunked_loss import chunked_loss, head_dtype
from lt2theory.linearize.divergence import token_kl
from lt2theory.linearize.objectives import ObjectiveConfig, TeacherObjective
from lt2theory.models import LoopedModel
from lt2theory.models.loop_loss import IGNORED


class Distillation(ObjectiveConfig):
    """Stage 3 of arXiv 2504.14366: `ce_weight * CE + kl_weight * KL(teacher | student)`.

    Both are means over labelled tokens. (The public code's `batchmean` makes the divergence as many
    times heavier as a window has tokens.) With `data: chat` only answers have labels: that is
    instruction-aware distillation.
    """

    kind: Literal["distillation"] = "distillation"
    ce_weight: float = Field(1.0, ge=0, description="Weight of the cross-entropy with the text.")
    kl_weight: float = Field(1.0, ge=0, description="Weight of the divergence from the teacher.")
    temperature: float = Field(
        1.0,
        gt=0,
        le=100,
        description="By which both logits are divided for the divergence, which is then "
        "multiplied by its square (Hinton et al., arXiv 1503.02531).",
    )
    chunk: int | None = Field(
        None, ge=1, description="Tokens whose logits are held at a time; none chooses by memory."
    )

    @model_validator(mode="after")
    def _check(self) -> "Distillation":
        if self.ce_weight == self.kl_weight == 0:
            raise ValueError("ce_weight: 0 is not allowed with kl_weight 0 (nothing is learnt)")
        return self

    def build(self, student: LoopedModel, teacher: LoopedModel) -> "DistillationObjective":
        """As in `ObjectiveConfig`.

        Args:
            student: The student.
            teacher: The teacher.

        Returns:
            The objective.

        Raises:
            ValueError: They have other vocabularies.
        """
        check_vocabularies(student, teacher)
        return DistillationObjective(student, teacher, self)


class DistillationObjective(TeacherObjective):
    """What `Distillation` minimises.

    Args:
        student: The student.
        teacher: The teacher.
        config: The weights.
    """

    repeats = True

    def __init__(self, student: LoopedModel, teacher: LoopedModel, config: Distillation) -> None:
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
        """As in `StepObjective`.

        Args:
            inputs: Ids.
            targets: The id after each; -100 where nothing is learnt.
            documents: Documents of the inputs, or None.
            label_share: The windows' share of the step's labels.
            row_share: Not read.

        Returns:
            The contribution, and `loss`, `ce`, `kl` (both unweighted, at temperature 1 and that of
            the config) and `agreement`, the share of tokens at which both find the same likeliest.
        """
        with torch.no_grad():
            taught = self.teacher.read_loops(inputs, documents=documents)[-1]
        own = self.model.read_loops(inputs, documents=documents)[-1]
        total, sums = distilled(
            (self.model, own.flatten(0, 1)),
            (self.teacher, taught.flatten(0, 1)),
            targets.flatten(),
            self.config,
        )
        share = label_share / (targets != IGNORED).sum().clamp(min=1).to(total)
        ce, kl, agreement = (sums * share).unbind()
        total = total * share
        return total, {"loss": total.detach(), "ce": ce, "kl": kl, "agreement": agreement}


def distilled(
    student: tuple[LoopedModel, Float[Tensor, "n d"]],
    teacher: tuple[LoopedModel, Float[Tensor, "n d"]],
    targets: Int[Tensor, " n"],
    config: Distillation,
) -> tuple[Float[Tensor, ""], Float[Tensor, " 3"]]:
    """The loss from residual streams, whose logits are never whole.

    Args:
        student: The student, and its stream after a loop.
        teacher: The teacher likewise.
        targets: The ids to be found; -100 where nothing is learnt.
        config: The weights.

    Returns:
        Sum of the loss over the tokens that are learnt, with gradients for the student, and the
        sums of cross-entropy, divergence and agreement, without.
    """
    h, weight = student[0].head_inputs(student[1]), student[0].head_weight
    with torch.no_grad():
        dtype = head_dtype(h)
        taught = teacher[0].head_inputs(teacher[1]).to(dtype)
        head = teacher[0].head_weight.to(dtype)
    heat = config.temperature

    def judge(logits: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            p = F.linear(taught[part], head)
        here = targets[part] != IGNORED
        ce = F.cross_entropy(logits, targets[part], reduction="sum", ignore_index=IGNORED)
        kl = (token_kl(p / heat, logits / heat) * here).sum() * heat**2
        same = ((p.argmax(-1) == logits.argmax(-1)) & here).sum().to(ce)
        total = config.ce_weight * ce + config.kl_weight * kl
        return total, torch.stack([ce, kl, same])

    return chunked_loss(h, weight, judge, chunk=config.chunk)


def check_vocabularies(student: LoopedModel, teacher: LoopedModel) -> None:
    """Refuse models whose logits cannot be compared.

    Args:
        student: The student.
        teacher: The teacher.

    Raises:
        ValueError: Their vocabularies differ.
    """
    own, theirs = student.config.vocab_size, teacher.config.vocab_size
    if own != theirs:
        raise ValueError(f"vocab_size: {own} of the student must be the teacher's, {theirs}")
