"""Distillation of a hybrid from a looped teacher: its likeliest tokens, at every loop, then one."""

from collections.abc import Sequence
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F
from typing_extensions import override

from lt2theory.linearize.alike import check_alike
from lt2theory.linearize.chunked_loss import chunked_loss
from lt2theory.linearize.loop_weights import loop_weights
from lt2theory.linearize.objectives import ObjectiveConfig, TeacherObjective
from lt2theory.linearize.topk import top_k, top_k_kl
from lt2theory.mixers.base import at_least_float32
from lt2theory.models import LoopedModel
from lt2theory.models.loop_loss import IGNORED


class HybridDistillation(ObjectiveConfig):
    """Stage 2 of LT2 (arXiv 2605.20670, section 4): divergences on the teacher's top-k tokens.

    The loss is a weighted mean over loops of the divergence from the same loop of the teacher, a
    mean over labelled tokens; there is no cross-entropy. k, temperature and the weights of loops
    are not published: the defaults are ours.
    """

    kind: Literal["hybrid"] = "hybrid"
    top_k: int = Field(
        64, ge=1, description="The teacher's likeliest tokens that are matched, as many as these."
    )
    tail: bool = Field(
        True,
        description="Count all other tokens as one. Without it nothing keeps the student from "
        "giving them most of its probability.",
    )
    temperature: float = Field(
        1.0,
        ge=1e-3,
        le=100,
        description="By which logits are divided; the divergence is multiplied by its square.",
    )
    warm_share: float = Field(
        0.5, ge=0, le=1, description="Share of the steps in which all loops count alike."
    )
    fade_share: float = Field(
        0.2, ge=0, le=1, description="Share of the steps in which the weight goes to the last loop."
    )
    inner_loops: bool = Field(
        True, description="Measure loops without weight too; each costs its logits."
    )
    chunk: int | None = Field(
        None, ge=1, description="Tokens whose logits are held at a time; none chooses by memory."
    )

    def build(self, student: LoopedModel, teacher: LoopedModel) -> "HybridObjective":
        """As in `ObjectiveConfig`.

        Args:
            student: The student.
            teacher: The teacher.

        Returns:
            The objective.

        Raises:
            ValueError: They have other vocabularies or numbers of loops.
        """
        check_alike(student.config, teacher.config, "vocab_size", "num_loops")
        return HybridObjective(student, teacher, self)


class HybridObjective(TeacherObjective):
    """What `HybridDistillation` minimises.

    Args:
        student: The student.
        teacher: The teacher.
        config: Tokens, loops and their weights.
    """

    def __init__(
        self, student: LoopedModel, teacher: LoopedModel, config: HybridDistillation
    ) -> None:
        super().__init__(student, teacher)
        self.config = config
        self.repeats = config.inner_loops
        self._fixed: Tensor | None = None

    def weights(self) -> list[float]:
        """Weights of the loops at the present step.

        Returns:
            One a loop, adding up to 1.
        """
        return self._weights(self.place.step, self.place.steps).tolist()

    @override
    def begin_step(self, step: int, steps: int) -> None:
        """As in `StepObjective`: weights go to a tensor of their own.

        Args:
            step: Steps done before.
            steps: Steps of the stage.
        """
        found = self._weights(step, steps)
        if self._fixed is None:
            like = self.model.embedding.weight
            self._fixed = torch.empty_like(found, device=like.device, dtype=like.dtype)
        self._fixed.copy_(found)

    def _weights(self, step: int, steps: int) -> Float[Tensor, " loops"]:
        config = self.config
        shares = {"warm_share": config.warm_share, "fade_share": config.fade_share}
        return loop_weights(self.model.config.num_loops, step, steps, **shares)

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
            The contribution, and `loss`, `kl` and `agreement` (of the last loop), and
            `loop_<n>_kl` of each where there are several; what is not measured is left out in
            every step of the stage.
        """
        with torch.no_grad():
            taught = self.teacher.read_loops(inputs, documents=documents)
        own = self.model.read_loops(inputs, documents=documents)
        learnt = (targets != IGNORED).flatten()
        share = label_share / learnt.sum().clamp(min=1).to(at_least_float32(own[-1]))
        # From a tensor none is known to be 0: every loop has a gradient.
        fixed = self._fixed
        weights: Sequence[float | Tensor] = self.weights() if fixed is None else fixed.unbind()
        total, seen = own[-1].sum() * 0.0, dict[str, Tensor]()
        for loop, weight in enumerate(weights, start=1):
            last, counts = loop == len(own), isinstance(weight, Tensor) or weight > 0
            if not (counts or last or self.config.inner_loops):
                continue
            with torch.set_grad_enabled(torch.is_grad_enabled() and counts):
                kl, agreement = self._of_loop(own[loop - 1], taught[loop - 1], learnt, share)
            total = total + weight * kl
            if len(own) > 1 and (last or self.config.inner_loops):
                seen[f"loop_{loop}_kl"] = kl.detach()
        return total, {"loss": total.detach(), "kl": kl.detach(), "agreement": agreement} | seen

    def _of_loop(
        self,
        own: Float[Tensor, "b t d"],
        taught: Float[Tensor, "b t d"],
        learnt: Bool[Tensor, " n"],
        share: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Divergence and agreement of one loop, sums over learnt tokens times `share`."""
        config, heat = self.config, self.config.temperature
        h, weight = self.model.head_inputs(own.flatten(0, 1)), self.model.head_weight
        with torch.no_grad():
            theirs = self.teacher.head_inputs(taught.flatten(0, 1))

        def judge(logits: Tensor, part: slice) -> tuple[Tensor, Tensor]:
            with torch.no_grad():
                head = self.teacher.head_weight.to(h.dtype)
                p = top_k(F.linear(theirs[part].to(h.dtype), head), config.top_k, temperature=heat)
            kl = top_k_kl(p, logits, temperature=heat, tail=config.tail)
            kl = (kl * learnt[part]).sum() * heat**2
            same = ((p.ids[:, 0] == logits.argmax(-1)) & learnt[part]).sum().to(kl)
            return kl, same[None]

        total, sums = chunked_loss(h, weight, judge, chunk=config.chunk)
        return total * share, sums[0] * share
