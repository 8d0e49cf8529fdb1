"""Which cache `generate()` gets: one that grows, or fixed buffers for steps one by one."""

from collections.abc import Mapping
from typing import Any

import torch
from transformers import GenerationConfig
from transformers.generation.configuration_utils import GenerationMode

from lt2theory.hf.cache import LoopedLTCache
from lt2theory.models import LoopedModel
from lt2theory.models.reading import WORTH

ROLLBACK = 16
"""Tokens between snapshots where generation takes guesses back."""


def generation_cache(
    model: LoopedModel,
    asked: GenerationConfig,
    mode: GenerationMode,
    model_kwargs: Mapping[str, Any],
    *,
    batch_size: int,
    max_cache_length: int,
    limit: int | None,
    leaves_early: bool,
) -> LoopedLTCache:
    """The cache that suits what is generated.

    Args:
        model: The model.
        asked: How text is generated; its `cache_implementation` is None, "dynamic" or "static".
        mode: What `transformers` makes of that.
        model_kwargs: What the model will be called with.
        batch_size: Prompts.
        max_cache_length: Tokens that are cached at most.
        limit: Positions that the model has; None for any number.
        leaves_early: Whether tokens leave the loops early.

    Returns:
        An empty cache, of fixed capacity where steps go through a `Decoder`.

    Raises:
        ValueError: `cache_implementation` is another, or does not fit early exits.
    """
    kind = asked.cache_implementation
    if kind not in (None, "dynamic", "static"):
        raise ValueError(
            f"cache_implementation: {kind!r} is not allowed (None, 'dynamic' or 'static')"
        )
    rows = batch_size * max(asked.num_beams, asked.num_return_sequences)
    taken_back = mode == GenerationMode.ASSISTED_GENERATION or asked.is_assistant
    if leaves_early and kind == "static":
        raise ValueError("cache_implementation: 'static' runs and reads all loops")
    one_by_one = mode in (GenerationMode.GREEDY_SEARCH, GenerationMode.SAMPLE)
    fixed = kind == "static" or (
        kind is None
        and one_by_one
        and not taken_back
        and not leaves_early
        and _gains_by_buffers(model, model_kwargs, max_cache_length)
    )
    most = max_cache_length + 1 if limit is None else min(max_cache_length + 1, limit)
    return LoopedLTCache(
        model,
        rows,
        capacity=most if fixed else None,
        snapshot_every=ROLLBACK if taken_back else None,
    )


def _gains_by_buffers(
    model: LoopedModel, model_kwargs: Mapping[str, Any], max_cache_length: int
) -> bool:
    """Whether steps from fixed buffers are faster: on a GPU, for texts of some length."""
    mask = model_kwargs.get("attention_mask")
    prompt = 0 if mask is None else mask.shape[1]
    on_gpu = model.embedding.weight.device.type == "cuda" and not torch.is_autocast_enabled("cuda")
    return on_gpu and max_cache_length + 1 - prompt >= WORTH
