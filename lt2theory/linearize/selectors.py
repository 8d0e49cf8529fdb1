"""Scores of layers that need no training: what a teacher's attention looks like.

Baselines for the choice of the layers that keep softmax (the choice by trained KL restores one
layer at a time, arXiv 2512.20569). All scores are higher where softmax is expected to matter more,
and are summed over loops, since a kept layer is a softmax call in each of them.
"""

from collections.abc import Iterable

import torch
from jaxtyping import Float
from torch import Tensor

from lt2theory.analysis.mixing_weights import attention_weights
from lt2theory.linearize.views import View
from lt2theory.ops.factors import AttentionInputs


def attention_entropy(inputs: AttentionInputs) -> Float[Tensor, " h"]:
    """How evenly a head spreads its attention: 0 for one key, 1 for all visible ones alike.

    Args:
        inputs: What one attention layer prepared, of an unbroken stream.

    Returns:
        Entropy divided by the logarithm of the number of visible keys, one a head, float64: the
        mean over the queries that see at least two keys; 0 where there are none.
    """
    weights = attention_weights(inputs)
    visible = _visible(weights, inputs.window)
    entropy = torch.special.entr(weights).sum(-1)[..., 1:]
    if not entropy.shape[-1]:
        return weights.new_zeros(weights.shape[1])
    relative: Tensor = entropy / visible[1:].log()
    return relative.mean((0, 2))


def attention_distance(inputs: AttentionInputs) -> Float[Tensor, " h"]:
    """Mean distance, in tokens, from a query to what it attends to.

    Args:
        inputs: What one attention layer prepared.

    Returns:
        One a head, float64.
    """
    weights = attention_weights(inputs)
    position = torch.arange(weights.shape[-1], device=weights.device)
    distance = (position[:, None] - position).clamp(min=0)
    return (weights * distance).sum(-1).mean((0, 2))


def attention_beyond(inputs: AttentionInputs, window: int) -> Float[Tensor, " h"]:
    """Share of a head's attention that a window would not see.

    Args:
        inputs: What one attention layer prepared.
        window: Tokens of the window, the query's own among them.

    Returns:
        One a head, float64; the mean over the queries that have keys beyond it, 0 without any.

    Raises:
        ValueError: `window` is below 1.
    """
    if window < 1:
        raise ValueError(f"window: {window} must be >= 1")
    weights = attention_weights(inputs)[:, :, window:]
    if not weights.shape[2]:
        return weights.new_zeros(weights.shape[1])
    position = torch.arange(weights.shape[-1], device=weights.device)
    beyond = position[window:, None] - position >= window
    return (weights * beyond).sum(-1).mean((0, 2))


def layer_scores(views: Iterable[View], *, window: int = 16) -> dict[str, Float[Tensor, " layers"]]:
    """Scores of every softmax layer of a teacher, summed over its loops.

    Args:
        views: From `teacher_views`.
        window: For the share of attention beyond it.

    Returns:
        By name: `sharpness` (1 - entropy: a linear mixer cannot pick one key), `distance` (mean,
        over heads), `beyond` (mean share beyond the window), and `reach` (the largest share of a
        head, a layer being as needed as its most far-sighted head). Layers that are no softmax
        attention score 0.
    """
    rows: dict[int, dict[str, float]] = {}
    for view in views:
        row = rows.setdefault(view.layer, dict.fromkeys(_NAMES, 0.0))
        if not isinstance(view.prepared, AttentionInputs):
            continue
        beyond = attention_beyond(view.prepared, window)
        row["sharpness"] += 1.0 - float(attention_entropy(view.prepared).mean())
        row["distance"] += float(attention_distance(view.prepared).mean())
        row["beyond"] += float(beyond.mean())
        row["reach"] += float(beyond.amax())
    return {
        name: torch.tensor([rows[layer][name] for layer in sorted(rows)], dtype=torch.float64)
        for name in _NAMES
    }


_NAMES = ("sharpness", "distance", "beyond", "reach")


def _visible(weights: Tensor, window: int | None) -> Tensor:
    """Keys that each query sees."""
    count = torch.arange(1, weights.shape[-1] + 1, device=weights.device, dtype=weights.dtype)
    return count if window is None else count.clamp(max=window)
