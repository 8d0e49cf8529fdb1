"""Small models whose caches are measured."""

import torch

from lt2theory.mixers import MIXERS, LinearMixer
from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.models.cache import LoopCache

HEADS, KEYS, VALUES, TAPS, WINDOW, FACTORS, INDEX = 2, 4, 6, 3, 5, 3, 7
"""Heads, entries of their keys and values, taps of the convolutions, tokens of a window, factors
a token of Gated DeltaProduct, entries of a key of DSA's indexer."""

LINEAR = tuple(name for name, mixer in MIXERS.items() if issubclass(mixer, LinearMixer))
"""Every linear mixer."""


def model_of(name: str, loop_state: str, num_loops: int, dtype: torch.dtype) -> LoopedModel:
    """A model without FFN, one layer a mixer.

    Args:
        name: Its pattern, mixers separated by commas.
        loop_state: Semantics of the loops.
        num_loops: Loops T.
        dtype: Of its parameters.

    Returns:
        The model.
    """
    sizes = {"width": 8, "num_heads": HEADS, "head_dim": KEYS, "value_dim": VALUES}
    chosen = {"pattern": name, "loop_state": loop_state, "num_loops": num_loops, "ffn_width": 0}
    more = {"num_layers": len(name.split(",")), "conv_width": TAPS, "window": WINDOW}
    sparse = {"num_factors": FACTORS, "index_dim": INDEX, "block_size": 3, "num_blocks": 2}
    config = LoopedConfig.model_validate({**sizes, **chosen, **more, **sparse})
    return LoopedModel(config).to(dtype)


def feed(model: LoopedModel, cache: LoopCache, length: int) -> None:
    """Run the model on two rows of tokens more.

    Args:
        model: The model.
        cache: Its cache, which is updated.
        length: Number of tokens.
    """
    with torch.no_grad():
        model(torch.zeros(2, length, dtype=torch.int64), cache)


def storage(cache: LoopCache) -> int:
    """Bytes that the tensors keep alive: a view keeps all of what it looks at.

    Args:
        cache: The cache.

    Returns:
        The bytes, of each storage once.
    """
    held = [x for slot in cache.slots.values() for x in vars(slot).values() if x is not None]
    return sum(each.nbytes() for each in {x.untyped_storage() for x in held})
