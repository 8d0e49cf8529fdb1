"""How much of the attention an indexer finds (DeepSeek sparse attention)."""

from dataclasses import replace
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from lt2theory.analysis._checks import check_at_least
from lt2theory.models import LoopTrace
from lt2theory.ops.attention_reference import visible_keys
from lt2theory.ops.factors import IndexedInputs
from lt2theory.ops.sparse.dsa import indexed_problem
from lt2theory.ops.sparse.dsa_reference import attention_over, selected_keys


def selected_mass(trace: LoopTrace, *, top_k: int | None = None) -> pd.DataFrame:
    """Attention mass on the keys that the indexer selects.

    The mass is that of the attention over all visible keys, averaged over the heads, in float64.
    A perfect indexer selects the `top_k` heaviest keys; one that knows nothing finds `top_k / n`
    of n visible keys' mass on average. Means are over the batch and over the queries that see
    more than `top_k` keys.

    Args:
        trace: What `LoopedModel.trace(tokens)` returned for one unbroken stream.
        top_k: Keys that are selected; None for the model's own number.

    Returns:
        One row for each layer and loop with an indexer: `selected` (mass that it finds), `largest`
        (mass of the heaviest keys) and `chance`. No rows if no layer has one.

    Raises:
        ValueError: If `top_k` is below 1, or no query sees more keys.
    """
    count = trace.config.top_k if top_k is None else top_k
    check_at_least("top_k", count, 1)
    length = trace.tokens.shape[1]
    if count >= length:
        raise ValueError(f"top_k: {count} is not allowed (must be in [1, {length - 1}])")
    visible = torch.arange(count + 1, length + 1, dtype=torch.float64)
    rows: list[dict[str, Any]] = []
    for (layer, loop), inputs in sorted(trace.factors.items(), key=lambda item: item[0]):
        if isinstance(inputs, IndexedInputs):
            found = _masses(inputs, count)
            chance = (count / visible).mean().item()
            rows.append({"layer": layer, "loop": loop, **found, "chance": chance})
    return pd.DataFrame(rows, columns=["layer", "loop", "selected", "largest", "chance"])


def _masses(inputs: IndexedInputs, top_k: int) -> dict[str, float]:
    """Mean mass of the selected and of the heaviest keys."""
    named = vars(inputs).items()
    wide: dict[str, Any] = {n: x.detach().double() for n, x in named if isinstance(x, Tensor)}
    problem = indexed_problem(replace(inputs, top_k=top_k, **wide))
    mass = attention_over(problem, visible_keys(problem)).mean(1)[:, top_k:]
    selected = (mass * selected_keys(problem)[:, top_k:]).sum(-1)
    largest = mass.topk(top_k, -1).values.sum(-1)
    return {"selected": selected.mean().item(), "largest": largest.mean().item()}
