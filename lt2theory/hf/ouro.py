"""Ouro's public checkpoint format (arXiv 2510.25741): its config.json and names of weights.

A folder is read as data: safetensors and JSON, without the code that is published beside them.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.models.presets import find_preset

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_PRESET = "ouro-1.4b"

_OF_MODEL = {
    "embedding.weight": "model.embed_tokens.weight",
    "norm.weight": "model.norm.weight",
    "exit_gate.weight": "model.early_exit_gate.weight",
    "exit_gate.bias": "model.early_exit_gate.bias",
}
_OF_LAYER = {
    "mixer_norm.weight": "input_layernorm.weight",
    "mixer_post_norm.weight": "input_layernorm_2.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_post_norm.weight": "post_attention_layernorm_2.weight",
    "mixer.q_proj.weight": "self_attn.q_proj.weight",
    "mixer.k_proj.weight": "self_attn.k_proj.weight",
    "mixer.v_proj.weight": "self_attn.v_proj.weight",
    "mixer.o_proj.weight": "self_attn.o_proj.weight",
    "ffn.w1.weight": "mlp.gate_proj.weight",
    "ffn.w3.weight": "mlp.up_proj.weight",
    "ffn.w2.weight": "mlp.down_proj.weight",
}
_ONLY = {"hidden_act": "silu", "rope_scaling": None, "attention_bias": False}
"""Fields with the one value that the preset's architecture has."""


def ouro_config(fields: dict[str, Any]) -> LoopedConfig:
    """The `LoopedConfig` of an Ouro config.json: the preset `ouro-1.4b` in another size.

    Args:
        fields: The contents of the file.

    Returns:
        The configuration.

    Raises:
        ValueError: It is no Ouro model, a field is missing, or it has what the preset lacks.
    """
    kind = fields.get("model_type")
    if kind != "ouro":
        raise ValueError(f"model_type: {kind!r} is not allowed (must be 'ouro')")
    rope = fields.get("rope_parameters") or {}  # where newer versions of transformers keep it
    kinds = {rope.get("rope_type", "default"), *(fields.get("layer_types") or ())}
    for name, value in _ONLY.items():
        if fields.get(name, value) != value:
            raise ValueError(f"{name}: {fields[name]!r} is not allowed (must be {value!r})")
    if not kinds <= {"default", "full_attention"} or fields.get("use_sliding_window"):
        raise ValueError("layer_types: only full attention without stretched positions is read")
    try:
        heads = fields["num_attention_heads"]
        own: dict[str, Any] = {
            "vocab_size": fields["vocab_size"],
            "width": fields["hidden_size"],
            "num_layers": fields["num_hidden_layers"],
            "num_loops": fields["total_ut_steps"],
            "num_heads": heads,
            "num_kv_heads": fields.get("num_key_value_heads") or heads,
            "head_dim": fields.get("head_dim"),
            "ffn_width": fields["intermediate_size"],
            "norm_eps": fields["rms_norm_eps"],
            "rope_base": rope.get("rope_theta", fields.get("rope_theta")) or 10000.0,
            "tie_embeddings": fields.get("tie_word_embeddings", False),
        }
    except KeyError as error:
        raise ValueError(f"config.json lacks {error.args[0]}") from error
    return LoopedConfig.model_validate({**find_preset(_PRESET).config.model_dump(), **own})


def ouro_names(config: LoopedConfig) -> dict[str, str]:
    """The name in Ouro's format of every weight of a `LoopedModel`.

    Args:
        config: What `ouro_config` gave.

    Returns:
        Our name -> its name.
    """
    names = dict(_OF_MODEL)
    for layer in range(config.num_layers):
        for ours, theirs in _OF_LAYER.items():
            names[f"blocks.{layer}.{ours}"] = f"model.layers.{layer}.{theirs}"
    if not config.tie_embeddings:
        names["head.weight"] = "lm_head.weight"
    return names


def load_ouro(folder: str | Path, *, dtype: torch.dtype | None = None) -> LoopedModel:
    """Read a folder with an Ouro checkpoint.

    Args:
        folder: With config.json and model.safetensors, or its shards and their index.
        dtype: Dtype of the weights; None keeps that of the file.

    Returns:
        The model, on the CPU. `LoopedLTForCausalLM.from_looped` puts it under `transformers`.

    Raises:
        ValueError: A file is missing or damaged, or config and weights do not fit each other.
    """
    path = Path(folder)
    config = ouro_config(_json(path / "config.json"))
    files = _files(path)
    with torch.device("meta"):
        model = LoopedModel(config)
    weights: dict[str, torch.Tensor] = {}
    shapes = {name: tuple(weight.shape) for name, weight in model.named_parameters()}
    for ours, theirs in ouro_names(config).items():
        if theirs not in files:
            raise ValueError(f"{path} lacks the weight {theirs}")
        weight = _tensor(files[theirs], theirs)
        if tuple(weight.shape) != shapes[ours]:
            raise ValueError(
                f"{path}: {theirs} has shape {tuple(weight.shape)}; config.json says {shapes[ours]}"
            )
        weights[ours] = weight if dtype is None else weight.to(dtype)
    model.load_state_dict(weights, assign=True)
    return model


def _files(path: Path) -> dict[str, Path]:
    """The file of every weight."""
    if (path / _INDEX).is_file():
        listed = _json(path / _INDEX).get("weight_map", {})
        # A name with a folder in it would leave the folder.
        return {name: path / Path(file).name for name, file in listed.items()}
    try:
        with safe_open(path / _SINGLE, framework="pt") as file:
            return dict.fromkeys(file.keys(), path / _SINGLE)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path / _SINGLE} cannot be read: {error}") from error


def _tensor(path: Path, name: str) -> torch.Tensor:
    try:
        with safe_open(path, framework="pt") as file:
            weight: torch.Tensor = file.get_tensor(name)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path}: {name} cannot be read: {error}") from error
    return weight


def _json(path: Path) -> dict[str, Any]:
    try:
        contents = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if not isinstance(contents, dict):
        raise ValueError(f"{path} holds no JSON object")
    return contents
