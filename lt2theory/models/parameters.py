"""What a model's parameters are, by part, counted on the meta device."""

from collections.abc import Iterator
from functools import cache

import torch
from torch import nn

from lt2theory.models.block import AnyMixer, Block
from lt2theory.models.config import LoopedConfig
from lt2theory.models.looped import LoopedModel

PARTS = ("embedding", "mixers", "ffn", "norms", "loop_gate", "exit_gate", "head")
"""Parts of a model; `norms` are those around the sub-layers, a mixer's own belong to it."""


def parameter_parts(config: LoopedConfig) -> dict[str, int]:
    """Trained numbers of a model by part; nothing is allocated.

    Args:
        config: Config of the model.

    Returns:
        Numbers by the names of `PARTS`. Learned positions count as embedding; tied embeddings
        count once, and the head is 0 then.
    """
    counted = dict.fromkeys(PARTS, 0)
    for name, parameter in meta_model(config).named_parameters():
        counted[_part_of(name)] += parameter.numel()
    return counted


@cache
def parameter_count(config: LoopedConfig) -> int:
    """Trained numbers of a model.

    Args:
        config: Config of the model.

    Returns:
        The number.
    """
    return sum(parameter_parts(config).values())


@cache
def applied_weights(config: LoopedConfig) -> int:
    """Weights of the blocks' matrices that a token is multiplied by, over all loops.

    Taps of convolutions, gains of norms and the head are left out. Where the mixer changes from
    loop to loop, each loop counts its own.

    Args:
        config: Config of the model.

    Returns:
        The number; T times the matrices of the blocks where the loops are alike.
    """
    return sum(p.numel() for part in _visited(config) for p in part.parameters() if p.dim() == 2)


@cache
def visited_parameters(config: LoopedConfig) -> int:
    """Parameters of the blocks that a pass over all loops reads, again in every loop.

    Args:
        config: Config of the model.

    Returns:
        The number; T times the parameters of the blocks where the loops are alike.
    """
    return sum(p.numel() for part in _visited(config) for p in part.parameters())


def mixer_of(model: LoopedModel, layer: int, loop: int) -> AnyMixer:
    """The mixer that a layer uses in a loop.

    Args:
        model: The model.
        layer: Layer, counted from 0.
        loop: Loop, counted from 0.

    Returns:
        The mixer.
    """
    block = model.blocks[layer]
    assert isinstance(block, Block)
    return block.mixers[model.config.mixer_number(layer, loop)]


def _visited(config: LoopedConfig) -> Iterator[nn.Module]:
    """The parts of the blocks in the order in which a token comes to them."""
    model = meta_model(config)
    for loop in range(config.num_loops):
        for layer, block in enumerate(model.blocks):
            yield mixer_of(model, layer, loop)
            yield from (
                part
                for name, part in block.named_children()
                if "mixers" not in name and name != "mixer"
            )


def meta_model(config: LoopedConfig) -> LoopedModel:
    """Build a model without memory for its parameters.

    Args:
        config: Config of the model.

    Returns:
        The model, on the meta device.
    """
    with torch.device("meta"):
        return LoopedModel(config)


def _part_of(name: str) -> str:
    """Part of a parameter, by its name in the model."""
    if not name.startswith("blocks."):
        start = name.split(".")[0]
        return {"position_embedding": "embedding", "norm": "norms"}.get(start, start)
    inner = name.split(".")[2]
    if inner in ("mixer", "other_mixers"):
        return "mixers"
    return "ffn" if inner == "ffn" else "norms"
