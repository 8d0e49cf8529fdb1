"""Where along the depth a group's running product can be read, and which heads it needs."""

from collections.abc import Collection

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int
from torch import Tensor
from torch.func import functional_call

from lt2theory.analysis.group_words import GroupWords, Place, products_of_two, readable
from lt2theory.models import LoopedModel, LoopTrace
from lt2theory.ops.factors import Factors

MOST_HEADS = 64
"""Heads, over all layers, up to which each is silenced in turn."""


def residual_readout(trace: LoopTrace, words: GroupWords) -> pd.DataFrame:
    """What a linear read-out finds in the residual stream after every block.

    Args:
        trace: What `LoopedModel.trace` returned for the tokens of `words`.
        words: The words.

    Returns:
        One row for the embedding (`layer` and `loop` -1: what the token and its position alone
        tell) and one for each (loop, layer), in the order in which they act: held-out accuracy of
        the `product` and of its `commuting` part (for S_n the sign), beside `chance` and
        `commuting_chance`, the shares of the most frequent answer.
    """
    element = words.after // words.clock
    part = words.commuting[words.after] // words.clock
    places = {(-1, -1): trace.states[0]} | {
        (loop, layer): trace.residuals[layer, loop]
        for loop in range(trace.config.num_loops)
        for layer in range(trace.config.num_layers)
    }
    rows = []
    for (loop, layer), stream in places.items():
        x = stream[:, words.first :].detach().flatten(0, 1).double().cpu().numpy()
        rows.append(
            {
                "layer": layer,
                "loop": loop,
                "product": readable(x, element, words.fitted),
                "chance": _most_frequent(element[~words.fitted]),
                "commuting": readable(x, part, words.fitted),
                "commuting_chance": _most_frequent(part[~words.fitted]),
            }
        )
    return pd.DataFrame(rows)


def state_readout(place: Place, words: GroupWords) -> dict[str, float | int]:
    """What a linear read-out finds in one head's state.

    Args:
        place: The head in one loop.
        words: The words.

    Returns:
        `layer`, `loop`, `head`; held-out accuracy of the `product` and of its `commuting` part,
        and `product_pairs` and `commuting_pairs` from `products_of_two` numbers of the state.
    """
    state = place.after.reshape(len(place.after), -1)
    pairs = products_of_two(state)
    element = words.after // words.clock
    part = words.commuting[words.after] // words.clock
    return {
        "layer": place.layer,
        "loop": place.loop,
        "head": place.head,
        "product": readable(state, element, words.fitted),
        "product_pairs": readable(pairs, element, words.fitted),
        "commuting": readable(state, part, words.fitted),
        "commuting_pairs": readable(pairs, part, words.fitted),
    }


def silenced_accuracy(
    model: LoopedModel,
    tokens: Int[Tensor, "b t"],
    targets: Int[Tensor, "b t"],
    layers: Collection[int],
) -> pd.DataFrame:
    """Accuracy without one head: its columns of the output projection are zero, in all loops.

    Args:
        model: The model.
        tokens: What it reads.
        targets: What it should answer; negative where nothing is asked.
        layers: Layers whose heads are silenced, one by one.

    Returns:
        One row for each layer and head, `accuracy` beside that of the `whole` model. Layers
        without a matrix state, and those whose mixer has no `o_proj` of one block a head, are left
        out; nothing is measured beyond `MOST_HEADS` heads.
    """
    columns = ["layer", "head", "accuracy", "whole"]
    if not layers:
        return pd.DataFrame(columns=columns)
    asked = targets >= 0

    def accuracy(changed: dict[str, Tensor]) -> float:
        with torch.no_grad():
            logits = functional_call(model, changed, (tokens,))
        return float((logits.argmax(-1) == targets)[asked].double().mean())

    heads = model.config.num_heads
    weights = {name: x for name, x in model.named_parameters() if name.endswith("o_proj.weight")}
    with torch.no_grad():
        first = model.trace(tokens[:1])
    linear = {layer for (layer, _), one in first.factors.items() if isinstance(one, Factors)}
    found = {
        layer: name
        for layer in sorted(linear & set(layers))
        if (name := f"blocks.{layer}.mixer.o_proj.weight") in weights
    }
    if not found or len(found) * heads > MOST_HEADS:
        return pd.DataFrame(columns=columns)
    whole = accuracy({})
    rows = []
    for layer, name in found.items():
        for head in range(heads):
            silent = weights[name].detach().clone().unflatten(1, (heads, -1))
            silent[:, head] = 0
            rows.append((layer, head, accuracy({name: silent.flatten(1)}), whole))
    return pd.DataFrame(rows, columns=columns)


def _most_frequent(labels: np.ndarray) -> float:
    return float(np.bincount(labels).max() / len(labels))
