"""End-to-end distillation: cross-entropy, and the divergence from the teacher at every token."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor
from torch.nn import functional as F

from lt2theory.linearize.alike import check_alike
from lt2theory.linearize.chunked_loss import chunked_loss
from lt2theory.linearize.divergence import token_kl
from lt2theory.linearize.lessons import Lesson, Spoken
from lt2theory.linearize.objectives import ObjectiveConfig, TeacherObjective
from lt2theory.linearize.topk import TopK, top_k_kl
from lt2theory.linearize.topk_store import TopKStore, part_of
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
        ge=1e-3,
        le=100,
        description="By which both logits are divided for the divergence, which is then "
        "multiplied by its square (Hinton et al., arXiv 1503.02531).",
    )
    top_k: int | None = Field(
        None,
        ge=1,
        description="Compare on the teacher's so many likeliest tokens and one that stands for "
        "all others. That can be kept on the disk, where several arms read it; none compares all.",
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
        check_alike(student.config, teacher.config, "vocab_size")
        return DistillationObjective(student, teacher, self)


class DistillationObjective(TeacherObjective):
    """What `Distillation` minimises.

    Args:
        student: The student.
        teacher: The teacher.
        config: The weights.

    Attributes:
        store: What is known of the teacher's likeliest tokens; None asks it every time.
    """

    def __init__(self, student: LoopedModel, teacher: LoopedModel, config: Distillation) -> None:
        super().__init__(student, teacher)
        self.config = config
        self.repeats = config.top_k is None
        self.store: TopKStore | None = None

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
        lesson = self._lesson(inputs, documents)
        own = self.model.read_loops(inputs, documents=documents)[-1]
        total, sums = distilled(
            self.model, own.flatten(0, 1), lesson, targets.flatten(), self.config
        )
        share = label_share / (targets != IGNORED).sum().clamp(min=1).to(total)
        ce, kl, agreement = (sums * share).unbind()
        total = total * share
        return total, {"loss": total.detach(), "ce": ce, "kl": kl, "agreement": agreement}

    @torch.no_grad()
    def _lesson(self, inputs: Tensor, documents: Tensor | None) -> Lesson:
        """What the teacher says about the windows, a token after the other."""
        config = self.config

        def heard() -> Spoken:
            h = self.teacher.read_loops(inputs, documents=documents)[-1].flatten(0, 1)
            return Spoken.of(self.teacher, h)

        def likeliest() -> TopK:
            assert config.top_k is not None
            return heard().top_k(config.top_k, config.temperature, config.chunk)

        if config.top_k is None:
            return heard()
        if self.store is None:
            return likeliest()
        return self.store.at(self.place, len(inputs), likeliest)


def distilled(
    student: LoopedModel,
    h: Float[Tensor, "n d"],
    lesson: Lesson,
    targets: Int[Tensor, " n"],
    config: Distillation,
) -> tuple[Float[Tensor, ""], Float[Tensor, " 3"]]:
    """The loss from residual streams, whose logits are never whole.

    Args:
        student: The student.
        h: Its stream after a loop.
        lesson: What the teacher says at the same tokens.
        targets: The ids to be found; -100 where nothing is learnt.
        config: The weights.

    Returns:
        Sum of the loss over the tokens that are learnt, with gradients for the student, and the
        sums of cross-entropy, divergence and agreement, without.
    """
    heat = config.temperature

    def compared(logits: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        if isinstance(lesson, TopK):
            told = part_of(lesson, part, logits)
            return top_k_kl(told, logits, temperature=heat), told.ids[:, 0]
        with torch.no_grad():
            p = lesson.logits(part)
        return token_kl(p / heat, logits / heat), p.argmax(-1)

    def judge(logits: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        here = targets[part] != IGNORED
        ce = F.cross_entropy(logits, targets[part], reduction="sum", ignore_index=IGNORED)
        kl, likeliest = compared(logits, part)
        kl = (kl * here).sum() * heat**2
        same = ((likeliest == logits.argmax(-1)) & here).sum().to(ce)
        total = config.ce_weight * ce + config.kl_weight * kl
        return total, torch.stack([ce, kl, same])

    return chunked_loss(student.head_inputs(h), student.head_weight, judge, chunk=config.chunk)
