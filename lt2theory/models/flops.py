"""The products of a training step, counted from the configuration."""

from functools import cache

import torch

from lt2theory.mixers import MIXERS, LinearMixer, MixerOptions
from lt2theory.models.config import LoopedConfig
from lt2theory.models.looped import LoopedModel


def step_flops(config: LoopedConfig, batch: int, length: int) -> float:
    """Multiplications and additions that a step cannot do without.

    `3 * 2 * b t (T W + d vocab)`: every weight of the W in the blocks' matrices once a token and
    loop, and the head; backward takes twice as much as forward. A recurrence adds `3 * 6 h k v` a
    token and factor step (erase, write, read), of which `accumulate` has T(T+1)/2 and `rescan` T;
    attention adds `3 * 2 h (k + v)` a token, loop and key that it reads: `(t + 1) / 2` keys, or
    those in its window where it has one. NSA and DSA are counted as if they read all keys, as their
    scores do at toy lengths.

    Args:
        config: Config of the model.
        batch: Rows.
        length: Tokens a row.

    Returns:
        The number.
    """
    total, tokens = 0.0, batch * length
    for spec in config.layers:
        options = config.mixer_options(spec)
        widths = options.head_dim + options.value_dim
        if issubclass(MIXERS[spec.mixer], LinearMixer):
            steps = factor_steps(config)
            total += steps * 6 * options.num_heads * options.head_dim * options.value_dim
        else:
            keys = _keys_read(options, length) if spec.mixer == "window" else (length + 1) / 2
            total += config.num_loops * 2 * options.num_heads * widths * keys
    weights = config.num_loops * matrix_weights(config) + config.width * config.vocab_size
    return 3 * tokens * (total + 2 * weights)


def factor_steps(config: LoopedConfig) -> int:
    """Factor steps a token that a layer takes over all loops, one factor a loop.

    Args:
        config: Config of the model.

    Returns:
        T(T+1)/2 under `accumulate`, else T.
    """
    loops = config.num_loops
    return loops * (loops + 1) // 2 if config.loop_state == "accumulate" else loops


@cache
def matrix_weights(config: LoopedConfig) -> int:
    """Weights of the matrices of all blocks; taps of convolutions and gains of norms left out.

    Args:
        config: Config of the model.

    Returns:
        The number.
    """
    with torch.device("meta"):
        model = LoopedModel(config)
    return sum(p.numel() for p in model.blocks.parameters() if p.dim() == 2)


@cache
def parameter_count(config: LoopedConfig) -> int:
    """Trained numbers of a model.

    Args:
        config: Config of the model.

    Returns:
        The number.
    """
    with torch.device("meta"):
        model = LoopedModel(config)
    return sum(p.numel() for p in model.parameters())


def _keys_read(options: MixerOptions, length: int) -> float:
    """Mean number of keys that a query of a window reads, its own among them."""
    window = min(options.window or length, length)
    return window - window * (window - 1) / (2 * length)
