"""The losses behind `labels`: shifted here, as everywhere in `transformers`."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from lt2theory.mixers.base import at_least_float32
from lt2theory.models import LoopedModel, loop_loss
from lt2theory.models.loop_loss import IGNORED


def next_token_loss(
    logits: Float[Tensor, "b t vocab"],
    labels: Int[Tensor, "b t"],
    num_items_in_batch: Tensor | int | None = None,
) -> Float[Tensor, ""]:
    """Cross-entropy of the next token, in at least float32.

    Args:
        logits: Logits.
        labels: The tokens themselves; -100 is not learnt.
        num_items_in_batch: What the sum is divided by; None takes the mean.

    Returns:
        Nats a label; NaN where there is none.
    """
    targets = shifted(labels)
    total = F.cross_entropy(
        at_least_float32(logits).flatten(0, 1),
        targets.flatten(),
        ignore_index=IGNORED,
        reduction="mean" if num_items_in_batch is None else "sum",
    )
    return total if num_items_in_batch is None else total / num_items_in_batch


def training_loss(
    model: LoopedModel,
    tokens: Int[Tensor, "b t"],
    labels: Int[Tensor, "b t"],
    documents: Int[Tensor, "b t"] | None,
    num_items_in_batch: Tensor | int | None = None,
) -> tuple[Float[Tensor, ""], Float[Tensor, "b t vocab"] | None]:
    """The loss that the configuration names, and the losses that parts of the model have.

    Args:
        model: The model.
        tokens: Token ids.
        labels: As for `next_token_loss`.
        documents: As for `LoopedModel.forward`.
        num_items_in_batch: As for `next_token_loss`.

    Returns:
        The loss, and the logits where the loss is that of the last loop; where it reads out
        several loops, their logits are not held and there is None.
    """
    own: dict[str, Tensor] = {}
    asked = own if any(s.mixer == "dsa" for loop in model.config.loops for s in loop) else None
    logits: Tensor | None = None
    if model.config.loop_loss == "last":
        logits = model(tokens, documents=documents, losses=asked)
        assert logits is not None
        total = next_token_loss(logits, labels, num_items_in_batch)
    else:
        targets = shifted(labels)
        total = loop_loss(model, tokens, targets, documents=documents, losses=asked).total
        if num_items_in_batch is not None:
            total = total * (targets != IGNORED).sum() / num_items_in_batch
    if own:
        total = total + torch.stack(list(own.values())).sum()
    return total, logits


def shifted(labels: Int[Tensor, "b t"]) -> Int[Tensor, "b t"]:
    """The label of every position: the next token, and none after the last.

    Args:
        labels: The tokens themselves.

    Returns:
        Targets, -100 where nothing is learnt.
    """
    return F.pad(labels[:, 1:], (0, 1), value=IGNORED)
