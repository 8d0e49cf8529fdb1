"""What the fields of a configuration must be to one another."""

from lt2theory.mixers import MIXERS, LinearMixer
from lt2theory.models.config_layers import LayeredConfig
from lt2theory.models.pattern import LayerSpec
from lt2theory.ops import BACKENDS
from tasks.names import unknown_name


def check_config(config: LayeredConfig) -> None:
    """Refuse fields that do not fit together.

    Args:
        config: A config whose fields are each in their range.

    Raises:
        ValueError: Naming the field, its value and what is allowed.
    """
    layers = tuple(dict.fromkeys(spec for loop in config.loops for spec in loop))
    _check_heads(config, layers)
    if (config.positions == "learned") != (config.max_length is not None):
        raise ValueError(
            f"max_length: {config.max_length} with positions={config.positions!r}; "
            "a number is needed with 'learned' and has no effect otherwise"
        )
    _check_loop_state(config)
    _check_decay(config, layers)
    _check_exits(config)
    if config.backend not in BACKENDS:
        raise ValueError(unknown_name("backend", config.backend, BACKENDS))


def _check_heads(config: LayeredConfig, layers: tuple[LayerSpec, ...]) -> None:
    """Refuse numbers and widths of heads that do not divide or cannot be rotated."""
    if config.head_dim is None and config.width % config.num_heads:
        raise ValueError(
            f"num_heads: {config.num_heads} does not divide width {config.width}; "
            "choose a divisor or give head_dim"
        )
    if config.num_heads % (config.num_kv_heads or config.num_heads):
        raise ValueError(
            f"num_kv_heads: {config.num_kv_heads} must divide num_heads {config.num_heads}"
        )
    if config.positions == "rope" and config.key_dim % 2:
        raise ValueError(f"head_dim: {config.key_dim} must be even for positions='rope'")
    indexed = any(layer.mixer == "dsa" for layer in layers)
    if config.positions == "rope" and indexed and config.index_dim % 2:
        raise ValueError(f"index_dim: {config.index_dim} must be even for positions='rope'")
    _check_rotation(config, layers)
    for name in ("linear_head_dim", "linear_value_dim"):
        if getattr(config, name) is not None and not any(map(_is_linear, layers)):
            raise ValueError(
                f"{name}: {getattr(config, name)} does nothing in pattern {config.pattern!r}, "
                "which has no linear layer; must be None there"
            )


def _check_rotation(config: LayeredConfig, layers: tuple[LayerSpec, ...]) -> None:
    """Refuse odd widths to be rotated, and settings of a rotation that would do nothing."""
    linear = [layer for layer in layers if _is_linear(layer)]
    for layer in linear:
        keys = config.head_dims(layer)[0]
        name = "head_dim" if config.linear_head_dim is None else "linear_head_dim"
        if layer.mixer == "retnet" and keys % 2:
            raise ValueError(f"{name}: {keys} must be even for retnet, which rotates")
        if config.linear_rotation == "on" and keys % 2:
            raise ValueError(f"{name}: {keys} must be even for linear_rotation='on'")
    if config.linear_rotation != "own" and not linear:
        raise ValueError(
            f"linear_rotation: {config.linear_rotation!r} does nothing in pattern "
            f"{config.pattern!r}, which has no linear layer; must be 'own' there"
        )
    if config.rope_scaling == "llama3" and config.rope_low >= config.rope_high:
        raise ValueError(f"rope_low: {config.rope_low} must be below rope_high {config.rope_high}")
    if config.rope_scaling == "none" and config.rope_factor != 1:
        raise ValueError(
            f"rope_factor: {config.rope_factor} does nothing with rope_scaling='none'; "
            "must be 1 there"
        )


def _check_loop_state(config: LayeredConfig) -> None:
    """Refuse to accumulate where there is nothing, or nothing of one kind."""
    if config.loop_state != "accumulate":
        return
    if not any(_is_linear(spec) for loop in config.loops for spec in loop):
        raise ValueError(
            f"loop_state: 'accumulate' needs a linear layer, and pattern {config.pattern!r} has "
            "none; use 'rescan'"
        )
    for layer in range(config.num_layers):
        linear = [spec.mixer for spec in config.mixers_at(layer) if _is_linear(spec)]
        if len(linear) > 1:
            raise ValueError(
                f"loop_state: 'accumulate' joins the factors of the loops, and layer {layer} of "
                f"pattern {config.pattern!r} is {' and '.join(linear)}; use 'rescan'"
            )


def _check_decay(config: LayeredConfig, layers: tuple[LayerSpec, ...]) -> None:
    """Refuse a grain of the decay that would do nothing or does not fit."""
    gated = [n for n, kind in MIXERS.items() if getattr(kind, "own_decay", None) is not None]
    if config.decay_grain != "own" and not any(layer.mixer in gated for layer in layers):
        raise ValueError(
            f"decay_grain: {config.decay_grain!r} does nothing in pattern {config.pattern!r}; "
            f"allowed there: 'own'; the mixers that take another are {', '.join(gated)}"
        )
    if config.decay_grain != "grouped" and config.decay_groups != 1:
        raise ValueError(
            f"decay_groups: {config.decay_groups} does nothing with decay_grain="
            f"{config.decay_grain!r}; must be 1 there"
        )
    for layer in layers:
        keys = config.head_dims(layer)[0]
        if keys % config.decay_groups and layer.mixer in gated:
            name = "head_dim" if config.linear_head_dim is None else "linear_head_dim"
            raise ValueError(f"decay_groups: {config.decay_groups} must divide {name} {keys}")


def _check_exits(config: LayeredConfig) -> None:
    """Refuse an expectation over exits that nobody learns."""
    if config.loop_loss == "expected" and not config.exit_gate:
        raise ValueError(
            "loop_loss: 'expected' needs exit_gate=True; allowed without it: 'last', 'mean'"
        )


def _is_linear(spec: LayerSpec) -> bool:
    return issubclass(MIXERS[spec.mixer], LinearMixer)
