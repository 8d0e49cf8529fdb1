"""Which layers keep softmax, given scores, and how far seeds agree about it."""

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor


def highest_layers(scores: Float[Tensor, " layers"], count: int) -> tuple[int, ...]:
    """The layers with the highest scores; of equal ones those nearer to the input.

    Args:
        scores: One a layer.
        count: How many.

    Returns:
        Their numbers, ascending.

    Raises:
        ValueError: There are not so many layers, or a score is no number.
    """
    check_count(count, len(scores))
    if not bool(torch.isfinite(scores).all()):
        raise ValueError(f"scores: {scores.tolist()} must be finite")
    order = sorted(range(len(scores)), key=lambda layer: (-float(scores[layer]), layer))
    return tuple(sorted(order[:count]))


def uniform_layers(num_layers: int, count: int) -> tuple[int, ...]:
    """Layers at even distances, the first among them.

    Args:
        num_layers: Layers.
        count: How many.

    Returns:
        Their numbers: of 28 every fourth for 7.

    Raises:
        ValueError: There are not so many layers.
    """
    check_count(count, num_layers)
    return tuple(i * num_layers // count for i in range(count))


def bookend_layers(num_layers: int, count: int) -> tuple[int, ...]:
    """The first and the last layer, and layers at even distances between them.

    Args:
        num_layers: Layers.
        count: How many, at least 2.

    Returns:
        Their numbers.

    Raises:
        ValueError: There are not so many layers, or `count` is below 2.
    """
    check_count(count, num_layers)
    if count < 2:
        raise ValueError(f"count: {count} must be >= 2 for two ends")
    return tuple(i * (num_layers - 1) // (count - 1) for i in range(count))


def score_table(scores: Float[Tensor, "seeds layers"], count: int) -> pd.DataFrame:
    """Scores of several seeds side by side, with how far they agree.

    Differences between layers are often smaller than those between seeds. So scores are never
    divided by one another, and the spread stands beside every mean.

    Args:
        scores: One row a seed.
        count: Layers to choose.

    Returns:
        A row a layer: `mean`, `lowest`, `highest` over seeds, `chosen` by the mean, and `share` of
        the seeds which alone would choose it.

    Raises:
        ValueError: As `highest_layers`.
    """
    chosen = highest_layers(scores.mean(0), count)
    alone = [highest_layers(row, count) for row in scores]
    layers = range(scores.shape[1])
    return pd.DataFrame(
        {
            "layer": list(layers),
            "mean": scores.mean(0).tolist(),
            "lowest": scores.amin(0).tolist(),
            "highest": scores.amax(0).tolist(),
            "chosen": [layer in chosen for layer in layers],
            "share": [sum(layer in one for one in alone) / len(alone) for layer in layers],
        }
    )


def check_count(count: int, num_layers: int, *, name: str = "count") -> None:
    """Refuse a number of layers that cannot be chosen.

    Args:
        count: How many.
        num_layers: Of how many.
        name: What the number is called.

    Raises:
        ValueError: It is below 1 or above `num_layers`.
    """
    if not 1 <= count <= num_layers:
        raise ValueError(f"{name}: {count} must be >= 1 and <= {num_layers}")
