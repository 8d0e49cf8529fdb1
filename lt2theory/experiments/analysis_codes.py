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
LONGEST_WORD = 64
"""Tokens of a word at most; what a model codes it codes from the start."""
HEAD_TOKENS = 1 << 16
"""Tokens over all heads and loops: models of many get fewer words."""
STATE_NUMBERS = 1 << 24
"""Numbers of the states of one layer and loop after every token."""
LEAST_TOKENS = 16
"""Tokens for each product, in the mean."""
SILENCED_TOKENS = 1 << 10
"""Tokens on which heads are silenced."""
BLOCK_TOKENS = 1 << 15
"""Tokens over all runs and blocks with a head silenced: large models get fewer words."""
KEYS = ("layer", "loop", "head", "component")
"""What names a code."""


def group_tables(
    model: LoopedModel, task: GroupWord, length: int, *, seed: int = 0
) -> dict[str, pd.DataFrame]:
    """What a model's states hold of the running product, and what moves it.

    Args:
        model: The model, in float64.
        task: Its task.
        length: Tokens of a word, at most `LONGEST_WORD` of which are looked at.
        seed: Which words of the test split.

    Returns:
        `group_readout` (by depth), `group_heads` (by head), `group_silenced` (without one head, in
        layers that hold something), and where a head holds something `group_codes` (by head and
        component) and `group_elements` (by element, at the best place of every component); nothing
        where the group is too large for the words that can be looked at.
    """
    known = group(task.group)
    config = model.config
    length = min(length, LONGEST_WORD)
    heads = config.num_layers * config.num_loops * config.num_heads
    key = config.head_dim or config.width // config.num_heads
    state = config.num_heads * key * (config.value_dim or key)
    wanted = min(TOKENS, HEAD_TOKENS // heads) * (1 + (known.order - 1) // 64)
    wanted = min(wanted, STATE_NUMBERS // state)
    held = task.split_count(length, "test")
    size = wanted // length if held is None else min(wanted // length, held)
    if known.order > LARGEST_ORDER or size * length < LEAST_TOKENS * known.order or size < 2:
        return {}
    batch = task.batch(stage=length, split="test", seed=seed, index=0, size=size)
    tokens = torch.from_numpy(batch.inputs)
    with torch.no_grad():
        trace = model.trace(tokens)
    words = group_words(batch.inputs, known, clock=task.tokens == "all")
    found, readouts = [], []
    for place in places(trace, words):
        readouts.append(state_readout(place, words))
        for code in held_codes(place, words):
            found.append((code_row(code, place, words), code_elements(code, place, words)))
    codes = pd.DataFrame([row for row, _ in found])
    named = named_codes(codes)
    best = {tuple(row[key] for key in KEYS) for row in named.to_dict("records")}
    elements = [table for row, table in found if tuple(row[key] for key in KEYS) in best]
    # A run for every head of a layer goes through all blocks in all loops.
    runs = heads * config.num_layers
    rows = max(1, min(SILENCED_TOKENS, BLOCK_TOKENS // runs) // length)
    asked = torch.from_numpy(batch.targets[:rows])
    silenced = silenced_accuracy(
        model, tokens[:rows], asked, {int(row["layer"]) for row, _ in found}
    )
    tables = {
        "group_readout": residual_readout(trace, words).assign(instances=size),
        "group_heads": pd.DataFrame(readouts),
        "group_silenced": silenced,
    }
    if elements:
        tables |= {"group_codes": codes, "group_elements": pd.concat(elements, ignore_index=True)}
    return tables
