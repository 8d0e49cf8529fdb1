"""How far a student is from its teacher, a token at a time."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from lt2theory.fields import KnownFields
from lt2theory.linearize.alike import check_alike
from lt2theory.mixers.base import at_least_float32
from lt2theory.models import LoopedModel
from lt2theory.models.loop_loss import IGNORED
from lt2theory.training.passes import LOGITS_AT_ONCE

_TOKENS_AT_ONCE = 1 << 14
"""Tokens that are read at a time, but at least a row."""


def token_kl(
    teacher_logits: Float[Tensor, "*tokens vocab"], student_logits: Float[Tensor, "*tokens vocab"]
) -> Float[Tensor, "*tokens"]:
    """Forward divergence `KL(teacher | student)` at every token, in nats.

    One number a token, so that a mean over tokens does not depend on how they lie in rows: torch's
    `kl_div(reduction="batchmean")` divides logits `[b t vocab]` by b alone and is t times as large.

    Args:
        teacher_logits: Logits of the teacher.
        student_logits: Logits of the student.

    Returns:
        Numbers >= 0, in at least float32.
    """
    p = at_least_float32(teacher_logits).log_softmax(-1)
    q = at_least_float32(student_logits).log_softmax(-1)
    return (p.exp() * (p - q)).sum(-1)


class Recovery(KnownFields, frozen=True):
    """How much of a teacher a student has, over some tokens.

    Attributes:
        kl: Mean divergence a token, nats.
        loss: The student's mean cross-entropy a predicted token, nats.
        teacher_loss: The teacher's.
        agreement: Share of tokens at which both find the same token likeliest.
    """

    kl: float
    loss: float
    teacher_loss: float
    agreement: float

    @property
    def is_finite(self) -> bool:
        """Whether all of it are numbers."""
        return all(math.isfinite(value) for value in self.model_dump().values())


@torch.no_grad()
def recovery(
    teacher: LoopedModel,
    student: LoopedModel,
    tokens: Int[Tensor, "b t"],
    *,
    chunk: int | None = None,
) -> Recovery:
    """Compare a student with its teacher on text.

    Rows are read one after the other where they are long, and logits a chunk of tokens at a time,
    so that `[tokens x vocabulary]` is never whole.

    Args:
        teacher: The teacher.
        student: The student, of the same vocabulary.
        tokens: Token ids; each predicts the next.
        chunk: Tokens whose logits are held at a time, of both models; None is as many as
            `LOGITS_AT_ONCE` allows.

    Returns:
        Means over all positions (divergence, agreement) or all predictions (losses).

    Raises:
        ValueError: The vocabularies differ, or there are fewer than two tokens a row.
    """
    check_alike(student.config, teacher.config, "vocab_size")
    batch, length = tokens.shape
    if length < 2:
        raise ValueError(f"tokens: {length} a row are not enough (must be >= 2)")
    following = F.pad(tokens[:, 1:], (0, 1), value=IGNORED)
    rows = max(1, _TOKENS_AT_ONCE // length)
    sums = torch.zeros(4, dtype=torch.float64, device=tokens.device)
    for some, after in zip(tokens.split(rows), following.split(rows), strict=True):
        streams = [model.read_loops(some)[-1].flatten(0, 1) for model in (teacher, student)]
        size = max(1, LOGITS_AT_ONCE // teacher.config.vocab_size) if chunk is None else chunk
        for h, own, targets in zip(
            *(x.split(size) for x in (*streams, after.flatten())), strict=True
        ):
            sums += _compared(teacher.read_out(h), student.read_out(own), targets)
    kl, agreement, loss, teacher_loss = sums.tolist()
    predicted = batch * (length - 1)
    return Recovery(
        kl=kl / (batch * length),
        loss=loss / predicted,
        teacher_loss=teacher_loss / predicted,
        agreement=agreement / (batch * length),
    )


def _compared(p: Tensor, q: Tensor, targets: Tensor) -> Float[Tensor, " 4"]:
    """Sums over some tokens: divergence, agreement, the student's loss, the teacher's."""
    losses = (
        F.cross_entropy(at_least_float32(x), targets, reduction="sum", ignore_index=IGNORED)
        for x in (q, p)
    )
    same = (p.argmax(-1) == q.argmax(-1)).sum()
    return torch.stack([x.double() for x in (token_kl(p, q).double().sum(), same, *losses)])
