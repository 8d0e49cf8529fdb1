"""The divergence from a teacher of which only the likeliest tokens are known."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from lt2theory.mixers.base import at_least_float32


@dataclass(frozen=True)
class TopK:
    """The likeliest tokens of a distribution, and how much is left.

    Attributes:
        ids: Their ids.
        log_p: Natural logarithms of their probabilities.
        log_rest: That of what all other tokens have together; None where there are none.
    """

    ids: Int[Tensor, "*tokens k"]
    log_p: Float[Tensor, "*tokens k"]
    log_rest: Float[Tensor, "*tokens"] | None


def top_k(
    logits: Float[Tensor, "*tokens vocab"], k: int, *, temperature: float | int = 1.0
) -> TopK:
    """The k likeliest tokens.

    Args:
        logits: Logits.
        k: How many; the whole vocabulary where it is smaller.
        temperature: By which logits are divided.

    Returns:
        The tokens, in at least float32.

    Raises:
        ValueError: `k` is below 1.
    """
    if k < 1:
        raise ValueError(f"k: {k} must be >= 1")
    log_p = (at_least_float32(logits) / temperature).log_softmax(-1)
    values, ids = log_p.topk(min(k, log_p.shape[-1]), -1)
    return TopK(ids, values, _rest(log_p, ids))


def top_k_kl(
    teacher: TopK,
    student_logits: Float[Tensor, "*tokens vocab"],
    *,
    temperature: float | int = 1.0,
    tail: bool = True,
) -> Float[Tensor, "*tokens"]:
    """Forward divergence on the teacher's likeliest tokens, a token at a time, in nats.

    With the tail all other tokens count as one: with P and Q what teacher and student give to the k
    tokens together, it is `P KL(p/P | q/Q)`, the divergence renormalised on them, plus
    `KL((P, 1-P) | (Q, 1-Q))`. That is never more than the full divergence, and equal to it where
    the other tokens are one or none. Without the tail it is `KL(p/P | q/Q)` alone, which does not
    see how much the student gives to all other tokens.

    Args:
        teacher: From `top_k`, at the same temperature.
        student_logits: Logits of the student.
        temperature: By which they are divided.
        tail: Whether the other tokens count.

    Returns:
        Numbers >= 0 up to rounding, in at least float32.
    """
    log_q = (at_least_float32(student_logits) / temperature).log_softmax(-1)
    own, log_p = log_q.gather(-1, teacher.ids), teacher.log_p
    if not tail:
        log_p, own = log_p.log_softmax(-1), own.log_softmax(-1)
    known = (log_p.exp() * (log_p - own)).sum(-1)
    if not tail or teacher.log_rest is None:
        return known
    rest = _rest(log_q, teacher.ids)
    assert rest is not None, "teacher and student have one vocabulary"
    return known + teacher.log_rest.exp() * (teacher.log_rest - rest)


def _rest(log_p: Tensor, ids: Tensor) -> Tensor | None:
    """Logarithm of what all but some tokens have together; None where these are all."""
    # From those tokens, not as 1 - P, which has no digits left where P is nearly 1.
    if ids.shape[-1] == log_p.shape[-1]:
        return None
    rest: Tensor = log_p.scatter(-1, ids, -torch.inf).logsumexp(-1)
    return rest
