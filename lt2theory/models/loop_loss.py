"""The loss of a looped model: of the last loop, of all, or expected over the exits."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from lt2theory.mixers.base import at_least_float32
from lt2theory.models.exits import divergence_from_equal
from lt2theory.models.looped import LoopedModel

IGNORED = -100
"""A target that is not learnt."""


@dataclass(frozen=True)
class LoopLoss:
    """What a training step minimises, and what it is made of.

    Attributes:
        total: The loss, a scalar with a gradient; nats a labelled token.
        by_loop: Cross-entropy of each loop that was read out, without a gradient: `[T]`, or `[1]`
            where the last alone counts.
        exits: Mean probability of leaving after each loop `[T]`, without a gradient; None
            without an exit gate or where it has no part in the loss.
    """

    total: Float[Tensor, ""]
    by_loop: Float[Tensor, " loops"]
    exits: Float[Tensor, " loops"] | None = None


def loop_loss(
    model: LoopedModel,
    tokens: Tensor,
    targets: Tensor,
    *,
    lengths: Tensor | None = None,
    documents: Tensor | None = None,
    losses: dict[str, Tensor] | None = None,
) -> LoopLoss:
    """Cross-entropy as `LoopedConfig.loop_loss` says, averaged over the labelled tokens.

    `last` reads out h^(T); `mean` every loop, with equal weights; `expected` weighs loop tau by
    the probability of leaving after it, a token at a time, and adds `exit_entropy` times the
    divergence of those probabilities from equal ones (Ouro, arXiv 2510.25741, section 3). Where
    several loops are read out, backward computes the logits again: those of one loop are held.

    Args:
        model: The model.
        tokens: Token ids `[b t]`.
        targets: The label of every position `[b t]`, int64; -100 is not learnt. Nothing is shifted.
        lengths: As in `LoopedModel.forward`.
        documents: As in `LoopedModel.forward`.
        losses: As in `LoopedModel.forward`; not added to the total.

    Returns:
        The loss and its parts; NaN where no position is labelled.

    Raises:
        ValueError: `targets` has another shape than `tokens`, or as `LoopedModel.forward`.
    """
    if targets.shape != tokens.shape:
        raise ValueError(
            f"targets: got shape {tuple(targets.shape)}; must be that of tokens, "
            f"{tuple(tokens.shape)}"
        )
    states = model.read_loops(tokens, lengths=lengths, documents=documents, losses=losses)
    labelled = targets != IGNORED
    if model.config.loop_loss == "last":
        total = _mean(_token_losses(model, states[-1], targets), labelled)
        return LoopLoss(total, total.detach()[None])
    by_loop = torch.stack([_recomputed(model, h, targets) for h in states])
    means = _mean(by_loop.detach(), labelled)
    if model.config.loop_loss == "mean":
        return LoopLoss(_mean(by_loop, labelled).mean(), means)
    log_p = model.exit_log_probabilities(states)
    p = log_p.exp()
    away = divergence_from_equal(log_p)
    total = _mean((p * by_loop).sum(0) + model.config.exit_entropy * away, labelled)
    return LoopLoss(total, means, _mean(p.detach(), labelled))


def _mean(x: Float[Tensor, "*loops b t"], labelled: Bool[Tensor, "b t"]) -> Float[Tensor, "*loops"]:
    """Mean over the labelled tokens, whose number the host need not know."""
    return x.where(labelled, 0.0).sum((-2, -1)) / labelled.sum()


def _token_losses(model: LoopedModel, h: Tensor, targets: Tensor) -> Float[Tensor, "b t"]:
    logits = at_least_float32(model.read_out(h)).flatten(0, 1)
    losses = F.cross_entropy(logits, targets.flatten(), ignore_index=IGNORED, reduction="none")
    by_token: Tensor = losses.unflatten(0, targets.shape)
    return by_token


def _recomputed(model: LoopedModel, h: Tensor, targets: Tensor) -> Float[Tensor, "b t"]:
    """`_token_losses`, whose logits are not kept for backward."""
    if not torch.is_grad_enabled():
        return _token_losses(model, h, targets)
    again: Tensor = checkpoint(
        _token_losses, model, h, targets, use_reentrant=False, preserve_rng_state=False
    )
    return again
