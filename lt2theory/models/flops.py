"""The products of a training step, a prefill and a token, counted from the configuration."""

from collections.abc import Iterator

from lt2theory.mixers import MIXERS, LinearMixer, MixerOptions
from lt2theory.models.config import LoopedConfig
from lt2theory.models.parameters import applied_weights
from lt2theory.models.pattern import LayerSpec


def step_flops(config: LoopedConfig, batch: int, length: int) -> float:
    """Multiplications and additions that a step cannot do without.

    `3 * 2 * b t (T W + d vocab)`: every weight of the W in the blocks' matrices once a token and
    loop, and the head (T times where the loss reads out every loop); backward takes twice as much
    as forward. A recurrence adds `3 * 6 h k v` a token and factor step (erase, write, read), of
    which `accumulate` has T(T+1)/2 and `rescan` T; attention adds `3 * 2 h (k + v)` a token, loop
    and key that it reads: `(t + 1) / 2` keys, or those in its window where it has one. NSA and DSA
    are counted as if they read all keys, as their scores do at toy lengths.

    Args:
        config: Config of the model.
        batch: Rows.
        length: Tokens a row.

    Returns:
        The number.
    """
    total = 0.0
    for spec, times in _visits(config):
        if _is_linear(spec):
            total += times * _recurrence(config, spec)
            continue
        options = config.mixer_options(spec)
        keys = _keys_read(options, length) if spec.mixer == "window" else (length + 1) / 2
        total += _attention(options) * keys
    return 3 * batch * length * (total + 2 * (applied_weights(config) + _head(config)))


def factor_steps(config: LoopedConfig) -> int:
    """Factor steps a token that a linear layer takes over all loops, one factor a loop.

    Args:
        config: Config of the model, whose loops are alike.

    Returns:
        T(T+1)/2 under `accumulate`, else T.
    """
    loops = config.num_loops
    return loops * (loops + 1) // 2 if config.loop_state == "accumulate" else loops


def forward_flops(config: LoopedConfig, length: int) -> dict[str, float]:
    """Products of reading a text, by part: what `prefill` and a training step consist of.

    Args:
        config: Config of the model.
        length: Tokens of the row.

    Returns:
        `blocks` (matrices), `mixing` (recurrences and attentions, as `mixing_flops`) and `head`, at
        every position and, where the loss reads out all loops, for each.
    """
    return {
        "blocks": 2.0 * length * applied_weights(config),
        "mixing": _mixing_of_loops(config, length),
        "head": 2.0 * length * _head(config),
    }


def token_flops(config: LoopedConfig, context: int) -> float:
    """Products of one more token after a context: of a decode step, for one row.

    Args:
        config: Config of the model.
        context: Tokens read before.

    Returns:
        The number; the head reads out the last loop.
    """
    mixing = _mixing_of_loops(config, context + 1) - _mixing_of_loops(config, context)
    return 2.0 * (applied_weights(config) + config.width * config.vocab_size) + mixing


def mixing_flops(config: LoopedConfig, spec: LayerSpec, length: int) -> float:
    """What the op of one layer adds for one row in one loop.

    A recurrence adds `6 h k v` a token and factor (erase, write, read); attention `2 h (k + v)` a
    token and key that it reads: of `(t + 1) / 2` on average, all, or at most the window's. NSA
    reads the complete blocks' means, at most its selected blocks and its window; DSA at most
    `top_k` keys, and its indexer scores every key with `2 n i`.

    Args:
        config: Config of the model.
        spec: What the layer is.
        length: Tokens of the row.

    Returns:
        The number.
    """
    options = config.mixer_options(spec)
    if _is_linear(spec):
        return length * _recurrence(config, spec)
    window = length if options.window is None else options.window
    index = 0.0
    if spec.mixer == "nsa":
        size = options.block_size
        blocks = length // size
        means = size * blocks * (blocks - 1) // 2 + blocks * (length - blocks * size + 1)
        pairs = means + _pairs(length, options.num_blocks * size) + _pairs(length, window)
    elif spec.mixer == "dsa":
        pairs = _pairs(length, options.top_k)
        index = 2.0 * options.index_heads * options.index_dim * _pairs(length, length)
    else:
        pairs = _pairs(length, window)
    return _attention(options) * pairs + index


def _mixing_of_loops(config: LoopedConfig, length: int) -> float:
    """`mixing_flops` of all layers and loops."""
    return sum(times * mixing_flops(config, spec, length) for spec, times in _visits(config))


def _visits(config: LoopedConfig) -> Iterator[tuple[LayerSpec, int]]:
    """Every layer in every loop, and how many loops' factors its op applies there."""
    for layer in range(config.num_layers):
        linear = 0
        for spec in config.specs_at(layer):
            linear += _is_linear(spec)
            joined = _is_linear(spec) and config.loop_state == "accumulate"
            yield spec, linear if joined else 1


def _head(config: LoopedConfig) -> int:
    """Weights of the head, as often as training reads out."""
    times = 1 if config.loop_loss == "last" else config.num_loops
    return times * config.width * config.vocab_size


def _recurrence(config: LoopedConfig, spec: LayerSpec) -> float:
    """Products of a token in one loop."""
    options = config.mixer_options(spec)
    factors = options.num_factors if spec.mixer == "gated_deltaproduct" else 1
    return 6.0 * factors * options.num_heads * options.head_dim * options.value_dim


def _attention(options: MixerOptions) -> float:
    """Products of a query and a key that it reads."""
    return 2.0 * options.num_heads * (options.head_dim + options.value_dim)


def _pairs(length: int, most: int) -> int:
    """Pairs of a query and a key that it reads, its own or earlier, at most so many a query."""
    full = min(length, most)
    return full * (full + 1) // 2 + (length - full) * most


def _keys_read(options: MixerOptions, length: int) -> float:
    """Mean number of keys that a query of a window reads, its own among them."""
    window = min(options.window or length, length)
    return window - window * (window - 1) / (2 * length)


def _is_linear(spec: LayerSpec) -> bool:
    return issubclass(MIXERS[spec.mixer], LinearMixer)
