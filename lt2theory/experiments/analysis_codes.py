"""The tables of an analysis about a group's running product: what the states code, and how."""

import pandas as pd
import torch

from lt2theory.analysis import (
    code_elements,
    code_row,
    group_words,
    held_codes,
    named_codes,
    places,
    residual_readout,
    silenced_accuracy,
    state_readout,
)
from lt2theory.models import LoopedModel
from tasks.group_word import GroupWord
from tasks.groups import group

LARGEST_ORDER = 120
"""Elements of a group; more would need more words than an analysis has time for."""
TOKENS = 1 << 12
"""Tokens of all words, and as many again for every 64 elements beyond the first."""
STATE_NUMBERS = 1 << 24
"""Numbers of the states of one layer and loop after every token."""
LEAST_TOKENS = 16
"""Tokens for each product, in the mean."""
SILENCED_TOKENS = 1 << 10
"""Tokens on which heads are silenced."""
KEYS = ("layer", "loop", "head", "component")
"""What names a code."""


def group_tables(
    model: LoopedModel, task: GroupWord, length: int, *, seed: int = 0
) -> dict[str, pd.DataFrame]:
    """What a model's states hold of the running product, and what moves it.

    Args:
        model: The model, in float64.
        task: Its task.
        length: Tokens of a word.
        seed: Which words of the test split.

    Returns:
        `group_readout` (by depth), `group_heads` (by head), `group_silenced` (without one head),
        and where a head holds something `group_codes` (by head and component) and
        `group_elements` (by element, at the best place of every component); nothing where the
        group is too large for the words that can be looked at.
    """
    known = group(task.group)
    config = model.config
    key = config.head_dim or config.width // config.num_heads
    state = config.num_heads * key * (config.value_dim or key)
    wanted = min(TOKENS * (1 + (known.order - 1) // 64), STATE_NUMBERS // state)
    held = task.split_count(length, "test")
    size = wanted // length if held is None else min(wanted // length, held)
    if known.order > LARGEST_ORDER or size * length < LEAST_TOKENS * known.order or size < 2:
        return {}
    batch = task.batch(stage=length, split="test", seed=seed, index=0, size=size)
    tokens = torch.from_numpy(batch.inputs)
    with torch.no_grad():
        trace = model.trace(tokens)
    words = group_words(batch.inputs, known, clock=task.tokens == "all")
    found, heads = [], []
    for place in places(trace, words):
        heads.append(state_readout(place, words))
        for code in held_codes(place, words):
            found.append((code_row(code, place, words), code_elements(code, place, words)))
    codes = pd.DataFrame([row for row, _ in found])
    named = named_codes(codes)
    best = {tuple(row[key] for key in KEYS) for row in named.to_dict("records")}
    elements = [table for row, table in found if tuple(row[key] for key in KEYS) in best]
    rows = max(1, SILENCED_TOKENS // length)
    silenced = silenced_accuracy(model, tokens[:rows], torch.from_numpy(batch.targets[:rows]))
    tables = {
        "group_readout": residual_readout(trace, words).assign(instances=size),
        "group_heads": pd.DataFrame(heads),
        "group_silenced": silenced,
    }
    if elements:
        tables |= {"group_codes": codes, "group_elements": pd.concat(elements, ignore_index=True)}
    return tables
