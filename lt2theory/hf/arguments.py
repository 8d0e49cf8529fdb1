"""Arguments of a call in `transformers`' words: which logits are kept, and what has a loss."""

from torch import Tensor

from lt2theory.hf.cache import LoopedLTCache


def last_logits(logits_to_keep: int | Tensor) -> int | None:
    """What `LoopedModel.forward` takes in place of `logits_to_keep`.

    Args:
        logits_to_keep: The last so many positions, 0 for all; or indices `[n]`.

    Returns:
        How many; None for all, among which indices choose afterwards.
    """
    return logits_to_keep or None if isinstance(logits_to_keep, int) else None


def kept_logits(logits: Tensor | None, logits_to_keep: int | Tensor) -> Tensor | None:
    """The positions that were asked for, of as many as were computed.

    Args:
        logits: `[b t vocab]`, or None.
        logits_to_keep: As for `last_logits`.

    Returns:
        `[b n vocab]`, or None.
    """
    if logits is None:
        return None
    if isinstance(logits_to_keep, int):
        return logits[:, -logits_to_keep:] if logits_to_keep else logits
    return logits[:, logits_to_keep]


def check_loss(
    tokens: Tensor, labels: Tensor, cache: LoopedLTCache | None, logits_to_keep: int | Tensor
) -> None:
    """Refuse what has no loss.

    Args:
        tokens: Token ids `[b t]`.
        labels: Their labels, of the same shape.
        cache: What has been read before; None if nothing.
        logits_to_keep: As for `last_logits`.

    Raises:
        ValueError: Naming the argument.
    """
    if labels.shape != tokens.shape:
        raise ValueError(
            f"labels: shape {tuple(labels.shape)} must be that of input_ids, {tuple(tokens.shape)}"
        )
    if cache is not None and cache.get_seq_length():
        raise ValueError("labels: a loss goes over whole texts; give no cache that has been used")
    if not isinstance(logits_to_keep, int) or logits_to_keep:
        raise ValueError("logits_to_keep: with labels all logits are needed; leave it at 0")
