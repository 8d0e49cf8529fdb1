"""How much one forward pass of an evaluation holds."""

from functools import cache

import torch

from lt2theory.models import LoopedConfig

TOKENS_AT_ONCE = {"cpu": 1 << 12, "cuda": 1 << 17}
"""Tokens of a forward pass; on a CPU, larger ones leave the cache and take up to 4 times longer."""
LOGITS_AT_ONCE = 1 << 26
"""Logits held in memory at a time (256 MiB in float32)."""
PASS = {"cpu": (TOKENS_AT_ONCE["cpu"], LOGITS_AT_ONCE), "cuda": (1 << 20, 1 << 28)}
"""The same, tokens and logits, for the small models of curricula: few kernels that fill a GPU."""

_SHARE = 6
"""One pass may fill a sixth of a GPU's memory, since other runs train there."""
_WIDTHS = 48
"""Numbers in float32 that a token needs at a time, in widths of the model, and as many more for
every loop that accumulates. Four layers of width 256 took, on a CPU, 19 to 54 widths with four
loops that rescan; GDN 88, 96 and 233 with two, four and eight that accumulate, KDA 188 with four.
"""


def rows_of_pass(config: LoopedConfig, length: int, device: torch.device) -> int:
    """Rows that one forward pass without gradients takes, at least one.

    It depends on the device's whole memory and not on what is free, so that a run gives the same
    bytes alone and beside others. On a GPU it is a power of two, as the usual sizes of evaluations
    are, so that no pass is left partly empty.

    Args:
        config: The model's.
        length: Tokens of a row.
        device: Where it computes.

    Returns:
        The rows.
    """
    tokens, logits = PASS[device.type]
    tokens = min(tokens, logits // config.vocab_size)
    if device.type == "cuda":
        held = config.num_loops if config.loop_state == "accumulate" else 1
        of_token = 4 * _WIDTHS * config.width * held
        tokens = min(tokens, _memory(device) // _SHARE // of_token)
    rows = max(1, tokens // length)
    return rows if device.type == "cpu" else 1 << (rows.bit_length() - 1)


@cache
def _memory(device: torch.device) -> int:
    """Bytes of a GPU."""
    return int(torch.cuda.get_device_properties(device).total_memory)
