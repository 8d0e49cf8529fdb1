"""From a Hugging Face config.json to a `LoopedConfig`: Llama and what differs little from it."""

from collections.abc import Mapping
from typing import Any

from lt2theory.models import LoopedConfig

KINDS = ("llama", "mistral", "qwen2", "qwen3", "ouro")
"""Values of `model_type` whose architecture `LoopedModel` has; SmolLM2 is a `llama`."""

_REASONS = {
    "gemma": "its norms are 1 + w and its embeddings are scaled",
    "gpt": "it has layer norms and learned positions",
    "olmo": "its norms come after the sub-layers",
    "phi": "it joins projections or rotates parts of a head",
    "smollm3": "some of its layers have no positions",
    "moe": "it has experts",
    "mixtral": "it has experts",
    "deepseek": "it compresses keys and values",
    "cohere": "its sub-layers run side by side",
}
"""Why some known kinds are refused, by a part of their name."""

_ONE_VALUE: dict[str, tuple[Any, ...]] = {
    "hidden_act": ("silu", "swish"),
    "mlp_bias": (False, None),
    "partial_rotary_factor": (1, 1.0, None),
    "quantization_config": (None,),
    "no_rope_layers": (None, []),
    "logit_scale": (None, 1, 1.0),
    "embedding_multiplier": (None, 1, 1.0),
}
"""Settings that are allowed to say one thing only."""


def looped_config(config: Mapping[str, Any], name: str) -> LoopedConfig:
    """The architecture of a checkpoint, as ours.

    Args:
        config: Contents of its config.json, of transformers 4 or 5.
        name: What it is called in messages.

    Returns:
        One loop of softmax layers, or Ouro's loops.

    Raises:
        ValueError: The architecture has something that `LoopedModel` cannot represent, which is
            named, or a setting is missing.
    """
    kind = _kind(config, name)
    for field, allowed in _ONE_VALUE.items():
        if field in config and config[field] not in allowed:
            raise ValueError(f"{name}: {field}: {config[field]!r} is not allowed ({allowed[0]!r})")
    layers = _number(config, "num_hidden_layers", name)
    heads = _number(config, "num_attention_heads", name)
    biased = bool(config.get("attention_bias", False)) and kind in ("llama", "qwen3")
    ouro = kind == "ouro"
    return LoopedConfig(
        vocab_size=_number(config, "vocab_size", name),
        width=_number(config, "hidden_size", name),
        num_layers=layers,
        num_loops=int(config.get("total_ut_steps", 4)) if ouro else 1,
        pattern=_pattern(config, kind, layers, name),
        num_heads=heads,
        num_kv_heads=config.get("num_key_value_heads") or heads,
        head_dim=config.get("head_dim"),
        ffn_width=_number(config, "intermediate_size", name),
        positions="rope",
        **_rotation(config, name),
        qkv_bias=biased or kind == "qwen2",
        output_bias=biased,
        qk_norm=kind == "qwen3",
        loop_gate=False,
        sandwich_norm=ouro,
        norm_between_loops=ouro,
        exit_gate=ouro,
        loop_loss="expected" if ouro else "last",
        tie_embeddings=bool(config.get("tie_word_embeddings", False)),
        norm_eps=float(config.get("rms_norm_eps", 1e-6)),
        embedding_std=0.02,
    )


def _kind(config: Mapping[str, Any], name: str) -> str:
    kind = str(config.get("model_type"))
    if kind in KINDS:
        return kind
    why = next((f": {why}" for part, why in _REASONS.items() if part in kind), "")
    raise ValueError(f"{name}: model_type: {kind!r} is not allowed ({', '.join(KINDS)}){why}")


def _number(config: Mapping[str, Any], field: str, name: str) -> int:
    value = config.get(field)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name}: {field}: {value!r} is not allowed (must be a whole number >= 1)")
    return value


def _pattern(config: Mapping[str, Any], kind: str, layers: int, name: str) -> str:
    """Softmax attention over the whole past, or over a window, layer by layer."""
    window = config.get("sliding_window", 4096 if kind == "mistral" else None)
    if kind != "mistral" and not config.get("use_sliding_window", False):
        window = None
    if window is None:
        return "full"
    kinds = config.get("layer_types")
    if kinds is None:
        first = 0 if kind == "mistral" else int(config.get("max_window_layers", 28))
        kinds = ["sliding_attention" if i >= first else "full_attention" for i in range(layers)]
    allowed = {"full_attention": "full", "sliding_attention": f"window({window})"}
    if len(kinds) != layers or any(one not in allowed for one in kinds):
        raise ValueError(
            f"{name}: layer_types: {kinds!r} is not allowed ({layers} of {', '.join(allowed)})"
        )
    named = [allowed[one] for one in kinds]
    return named[0] if len(set(named)) == 1 else ",".join(named)


def _rotation(config: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Base and scaling, which transformers 5 keeps in `rope_parameters`."""
    told = dict(config.get("rope_scaling") or {}) | dict(config.get("rope_parameters") or {})
    base = told.get("rope_theta", config.get("rope_theta", 10000.0))
    kind = told.get("rope_type", told.get("type", "default"))
    fields: dict[str, Any] = {"rope_base": float(base)}
    if kind in ("default", None):
        return fields
    if kind not in ("linear", "llama3"):
        raise ValueError(
            f"{name}: rope_type: {kind!r} is not allowed (default, linear, llama3): its "
            "wavelengths or scores depend on the length in a way that LoopedModel does not have"
        )
    fields |= {"rope_scaling": kind, "rope_factor": float(told["factor"])}
    if kind == "llama3":
        fields |= {
            "rope_low": float(told["low_freq_factor"]),
            "rope_high": float(told["high_freq_factor"]),
            "rope_original_length": int(told["original_max_position_embeddings"]),
        }
    return fields
