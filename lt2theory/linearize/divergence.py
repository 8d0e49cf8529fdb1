"""How far a student is from its teacher, a token at a time."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from lt2theory.mixers.base import at_least_float32
from lt2theory.models import LoopedModel


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


@dataclass(frozen=True)
class Recovery:
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


@torch.no_grad()
def recovery(
    teacher: LoopedModel, student: LoopedModel, tokens: Int[Tensor, "b t"], *, chunk: int = 512
) -> Recovery:
    """Compare a student with its teacher on text.

    Args:
        teacher: The teacher.
        student: The student, of the same vocabulary.
        tokens: Token ids; each predicts the next.
        chunk: Positions of a row whose logits are held at a time, of both models.

    Returns:
        Means over all positions (divergence, agreement) or all predictions (losses).

    Raises:
        ValueError: The vocabularies differ, or there are fewer than two tokens a row.
    """
    if teacher.config.vocab_size != student.config.vocab_size:
        raise ValueError(
            f"vocab_size: {student.config.vocab_size} of the student must be the teacher's, "
            f"{teacher.config.vocab_size}"
        )
    batch, length = tokens.shape
    if length < 2:
        raise ValueError(f"tokens: {length} a row are not enough (must be >= 2)")
    streams = [model.read_loops(tokens)[-1] for model in (teacher, student)]
    kl = agreement = loss = teacher_loss = 0.0
    for begin in range(0, length, chunk):
        part = slice(begin, begin + chunk)
        p, q = (
            model.read_out(h[:, part]) for model, h in zip((teacher, student), streams, strict=True)
        )
        kl += float(token_kl(p, q).double().sum())
        agreement += float((p.argmax(-1) == q.argmax(-1)).sum())
        following = tokens[:, begin + 1 : begin + 1 + chunk]
        teacher_loss += _loss_sum(p, following)
        loss += _loss_sum(q, following)
    predicted = batch * (length - 1)
    return Recovery(
        kl=kl / (batch * length),
        loss=loss / predicted,
        teacher_loss=teacher_loss / predicted,
        agreement=agreement / (batch * length),
    )


def _loss_sum(logits: Tensor, following: Tensor) -> float:
    """Sum of the cross-entropy; the last position of a row has no following token."""
    known = at_least_float32(logits[:, : following.shape[1]])
    return float(F.cross_entropy(known.flatten(0, 1), following.flatten(), reduction="sum"))
