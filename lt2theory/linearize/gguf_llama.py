"""A GGUF file of a Llama-like model in Hugging Face's terms: configuration, tensors, tokenizer."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from lt2theory.linearize.gguf import GgufFile
from lt2theory.linearize.weights import CONFIG, WEIGHTS

_KINDS = ("llama", "qwen2", "qwen3")
"""Architectures of GGUF files that are read."""
_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_PARTS = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_BLOCK = re.compile(r"blk\.(\d+)\.([a-z_]+)\.(weight|bias)")
_PRE_TOKENIZERS: dict[str, list[dict[str, Any]]] = {
    "smollm": [{"type": "Digits", "individual_digits": True}],
    "gpt-2": [],
}
"""What comes before the byte-level splitting, by `tokenizer.ggml.pre`."""
_SPECIAL = (3, 4)
"""Token types of marks: control, and defined by the user."""


class GgufSource:
    """A GGUF file as a source of weights; they are widened from their blocks.

    Args:
        path: The file.

    Raises:
        ValueError: The file is damaged, or of an architecture that is not read.
    """

    def __init__(self, path: Path) -> None:
        self.file = GgufFile(path)
        self._config = _config(self.file)
        self._names = {_translated(name, path): name for name in self.file.names}
        self._config["tie_word_embeddings"] = "lm_head.weight" not in self._names

    @property
    def name(self) -> str:
        """The file."""
        return str(self.file.path)

    @property
    def config(self) -> Mapping[str, Any]:
        """What a config.json would say."""
        return self._config

    @property
    def names(self) -> frozenset[str]:
        """Names of the tensors, as Hugging Face has them."""
        return frozenset(self._names)

    def read(self, name: str) -> Tensor:
        """A tensor.

        Args:
            name: One of `names`.

        Returns:
            float32. Rows of queries and keys are in the order of rotated halves: for `llama` the
            file has the two of a pair side by side.
        """
        tensor = torch.from_numpy(self.file.read(self._names[name]).copy())
        turned = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}
        part = name.split(".")[-2]
        if self._config["model_type"] != "llama" or part not in turned:
            return tensor
        pairs = tensor.unflatten(0, (self._config[turned[part]], -1, 2))
        halves: Tensor = pairs.transpose(1, 2).flatten(0, 2).contiguous()
        return halves

    def tokenizer(self) -> dict[str, Any]:
        """The tokenizer in the file.

        Returns:
            Contents of a tokenizer.json of the package `tokenizers`.

        Raises:
            ValueError: It is no byte-level BPE with a known splitting.
        """
        return _tokenizer(self.file)


def write_folder(source: GgufSource, folder: Path, *, dtype: torch.dtype = torch.bfloat16) -> None:
    """Write a GGUF file out as a Hugging Face checkpoint with its tokenizer.

    Args:
        source: The file.
        folder: A folder to write config.json, model.safetensors, tokenizer.json and
            tokenizer_config.json to; made where it is missing.
        dtype: Of the weights; 4-bit blocks lose nothing of note in bfloat16.

    Raises:
        ValueError: The tokenizer is not known.
    """
    files = tokenizer_files(source)
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: source.read(name).to(dtype).contiguous() for name in sorted(source.names)}
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    for name, contents in {CONFIG: source.config, **files}.items():
        (folder / name).write_text(json.dumps(contents, indent=1), encoding="utf-8")


def tokenizer_files(source: GgufSource) -> dict[str, Mapping[str, Any]]:
    """The tokenizer in a GGUF file as Hugging Face keeps one.

    Args:
        source: The file.

    Returns:
        Contents of tokenizer.json and tokenizer_config.json, by their names.

    Raises:
        ValueError: The tokenizer is not known.
    """
    told = source.file.metadata
    tokens = told["tokenizer.ggml.tokens"]
    marks = {
        f"{role}_token": tokens[told[f"tokenizer.ggml.{role}_token_id"]]
        for role in ("bos", "eos")
        if f"tokenizer.ggml.{role}_token_id" in told
    }
    return {"tokenizer.json": source.tokenizer(), "tokenizer_config.json": marks}


def _config(file: GgufFile) -> dict[str, Any]:
    told = file.metadata
    kind = told.get("general.architecture")
    if kind not in _KINDS:
        raise ValueError(
            f"{file.path}: general.architecture: {kind!r} is not allowed ({', '.join(_KINDS)})"
        )
    needed = ("block_count", "embedding_length", "feed_forward_length", "attention.head_count")
    lacking = [name for name in needed if f"{kind}.{name}" not in told]
    if lacking:
        raise ValueError(f"{file.path} lacks {kind}.{lacking[0]}")
    layers, width, hidden, heads = (told[f"{kind}.{name}"] for name in needed)
    if "rope_freqs.weight" in file.names or f"{kind}.rope.scaling.type" in told:
        raise ValueError(f"{file.path}: scaled rotary positions in a GGUF file are not read")
    return {
        "model_type": kind,
        "num_hidden_layers": layers,
        "hidden_size": width,
        "intermediate_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": told.get(f"{kind}.attention.head_count_kv", heads),
        "head_dim": told.get(f"{kind}.attention.key_length", width // heads),
        "vocab_size": file.shape("token_embd.weight")[0],
        "rms_norm_eps": round(told[f"{kind}.attention.layer_norm_rms_epsilon"], 12),
        "rope_theta": told.get(f"{kind}.rope.freq_base", 10000.0),
        "max_position_embeddings": told.get(f"{kind}.context_length"),
        "hidden_act": "silu",
    }


def _translated(name: str, path: Path) -> str:
    if name in _TOP:
        return _TOP[name]
    match = _BLOCK.fullmatch(name)
    if match is None or match[2] not in _PARTS:
        raise ValueError(f"{path} has the tensor {name!r}, which no Llama has")
    return f"model.layers.{match[1]}.{_PARTS[match[2]]}.{match[3]}"


def _tokenizer(file: GgufFile) -> dict[str, Any]:
    told = file.metadata
    kind, splitting = told.get("tokenizer.ggml.model"), told.get("tokenizer.ggml.pre")
    if kind != "gpt2" or splitting not in _PRE_TOKENIZERS:
        raise ValueError(
            f"{file.path}: the tokenizer {kind!r} with splitting {splitting!r} is not allowed "
            f"('gpt2' with {', '.join(_PRE_TOKENIZERS)})"
        )
    tokens: list[str] = told["tokenizer.ggml.tokens"]
    types: list[int] = told["tokenizer.ggml.token_type"]
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": number, "content": token, "special": True, **flags}
            for number, (token, what) in enumerate(zip(tokens, types, strict=True))
            if what in _SPECIAL
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [*_PRE_TOKENIZERS[splitting], byte_level],
        },
        "post_processor": None,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": told["tokenizer.ggml.merges"],
        },
    }
