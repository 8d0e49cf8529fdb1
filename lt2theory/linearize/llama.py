"""Llama-like checkpoints (Llama, SmolLM2, Mistral, Qwen2, Qwen3, Ouro) as our `LoopedModel`."""

import torch
from torch import nn

from lt2theory.linearize.llama_config import looped_config
from lt2theory.linearize.weights import WeightSource
from lt2theory.models import LoopedConfig, LoopedModel

_MIXER = {"q_proj": True, "k_proj": True, "v_proj": True, "o_proj": False}
"""Projections by name; whether they belong to q, k and v."""
_FFN = {"w1": "gate_proj", "w3": "up_proj", "w2": "down_proj"}
_SPARE = ("rotary_emb.inv_freq", "lm_head.weight")
"""Ends of tensors that follow from others: wavelengths, and the head where it is tied."""


def load_llama(source: WeightSource, *, dtype: torch.dtype = torch.float32) -> LoopedModel:
    """Read a checkpoint into a model of ours.

    Args:
        source: The checkpoint.
        dtype: Of the model.

    Returns:
        The model, on the CPU; it gives the logits of the architecture it was saved from.

    Raises:
        ValueError: The architecture cannot be represented (`looped_config`), a tensor is missing
            or has another shape, or the checkpoint has a tensor that nothing would read.
    """
    config = looped_config(source.config, source.name)
    names = tensor_names(config)
    missing = sorted(set(names.values()) - source.names)
    if missing:
        raise ValueError(f"{source.name} lacks the tensor {missing[0]}")
    extra = sorted(n for n in source.names - set(names.values()) if not n.endswith(_SPARE))
    if extra:
        raise ValueError(f"{source.name} has the tensor {extra[0]}, which this architecture lacks")
    with torch.device("meta"):
        model = LoopedModel(config)
    shapes = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    state = {}
    for ours, theirs in names.items():
        tensor = source.read(theirs)
        if tuple(tensor.shape) != shapes[ours]:
            raise ValueError(
                f"{source.name}: tensor {theirs} has shape {tuple(tensor.shape)}; "
                f"its config.json asks for {shapes[ours]}"
            )
        state[ours] = nn.Parameter(tensor.to(dtype).clone())
    model.load_state_dict(state, assign=True)
    return model


def tensor_names(config: LoopedConfig) -> dict[str, str]:
    """Where every parameter of a model is found in a checkpoint.

    Args:
        config: Config of the model, as `looped_config` gives it.

    Returns:
        Name in a `LoopedModel` -> name in the checkpoint.
    """
    names = {"embedding.weight": "model.embed_tokens.weight", "norm.weight": "model.norm.weight"}
    if not config.tie_embeddings:
        names["head.weight"] = "lm_head.weight"
    if config.exit_gate:
        names |= {f"exit_gate.{end}": f"model.early_exit_gate.{end}" for end in ("weight", "bias")}
    for layer in range(config.num_layers):
        ours, theirs = f"blocks.{layer}", f"model.layers.{layer}"
        for name, end in _of_layer(config).items():
            names[f"{ours}.{name}"] = f"{theirs}.{end}"
    return names


def _of_layer(config: LoopedConfig) -> dict[str, str]:
    """The parameters of one block, in both namings."""
    names = {
        "mixer_norm.weight": "input_layernorm.weight",
        "ffn_norm.weight": "post_attention_layernorm.weight",
    }
    if config.sandwich_norm:  # Ouro's second norms stand behind the sub-layers
        names["mixer_post_norm.weight"] = "input_layernorm_2.weight"
        names["ffn_post_norm.weight"] = "post_attention_layernorm_2.weight"
    for projection, is_input in _MIXER.items():
        names[f"mixer.{projection}.weight"] = f"self_attn.{projection}.weight"
        if config.qkv_bias if is_input else config.output_bias:
            names[f"mixer.{projection}.bias"] = f"self_attn.{projection}.bias"
    if config.qk_norm:
        names |= {f"mixer.{n}_norm.weight": f"self_attn.{n}_norm.weight" for n in "qk"}
    return names | {f"ffn.{o}.weight": f"mlp.{t}.weight" for o, t in _FFN.items()}
