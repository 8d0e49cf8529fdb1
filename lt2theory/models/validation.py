"""Checks of what a model is given, before anything runs."""

import torch
from torch import Tensor

from lt2theory.mixers import Stream
from lt2theory.models.arguments import check_tensor, check_whole
from lt2theory.models.cache import LoopCache
from lt2theory.models.config import LoopedConfig


def check_tokens(config: LoopedConfig, tokens: Tensor, last_logits: int | None = None) -> None:
    """Refuse what are no tokens of a model.

    Args:
        config: Config of the model.
        tokens: Token ids `[b t]`.
        last_logits: How many positions are read out; None is all.

    Raises:
        ValueError: Naming `tokens` or `last_logits`.
    """
    check_tensor("tokens", tokens)
    if tokens.dim() != 2 or tokens.dtype not in (torch.int64, torch.int32):
        raise ValueError(
            f"tokens: got {tokens.dtype} of shape {tuple(tokens.shape)}; "
            "must be int64 or int32 of shape [batch, length]"
        )
    low, high = _extremes(tokens)
    if low < 0 or high >= config.vocab_size:
        bad = low if low < 0 else high
        raise ValueError(f"tokens: id {bad} is outside the vocabulary 0..{config.vocab_size - 1}")
    if last_logits is None:
        return
    check_whole("last_logits", last_logits)
    if not 0 <= last_logits <= tokens.shape[1]:
        raise ValueError(f"last_logits: {last_logits} must lie in 0..{tokens.shape[1]}")


def check_positions(config: LoopedConfig, stream: Stream, cache: LoopCache | None = None) -> None:
    """Refuse more tokens than there are learned positions.

    Args:
        config: Config of the model.
        stream: The positions.
        cache: What the stream goes on from.

    Raises:
        ValueError: Naming the length and `max_length`.
    """
    limit = config.max_length
    if limit is None or stream.positions.numel() == 0:
        return
    if stream.segments is None:
        furthest = stream.positions.shape[1] + (0 if cache is None else cache.length)
    else:
        furthest = int(stream.positions.max()) + 1
    if furthest > limit:
        raise ValueError(
            f"tokens: length {furthest} is beyond the learned positions (max_length = {limit})"
        )


def _extremes(tokens: Tensor) -> tuple[int, int]:
    """The least and the largest id where looking costs nothing, and (0, 0) elsewhere."""
    # On a GPU a look would wait for the device; the embedding's own check guards there.
    if tokens.device.type != "cpu" or not tokens.numel():
        return 0, 0
    try:
        return int(tokens.min()), int(tokens.max())
    except RuntimeError:  # mapped by torch.func.vmap, or a fake tensor: there are no values
        return 0, 0
