"""Checkpoints of Llama-like models: our logits are those of transformers, others are refused."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from lt2theory.linearize.llama import load_llama, tensor_names
from lt2theory.linearize.llama_config import looped_config
from lt2theory.linearize.weights import FolderSource
from lt2theory.models import LoopedModel

SMALL = {
    "vocab_size": 61,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-6,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": None,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 300.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "smollm2": ("Llama", {"tie_word_embeddings": True, "num_attention_heads": 6}),
    "llama-biases-wide-heads": ("Llama", {"attention_bias": True, "head_dim": 16}),
    "llama-no-groups": ("Llama", {"num_key_value_heads": 6}),
    "llama-linear": (
        "Llama",
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 500.0, "factor": 3.0}},
    ),
    "llama-3.1": ("Llama", {"rope_parameters": LLAMA3}),
    "mistral": ("Mistral", {"sliding_window": 9}),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen2-windows": (
        "Qwen2",
        {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1},
    ),
    "qwen3": ("Qwen3", {"head_dim": 12}),
    "qwen3-biases": ("Qwen3", {"head_dim": 8, "attention_bias": True}),
}


def save_random(folder: Path, case: str, **how: Any) -> Any:
    """Write a tiny random checkpoint of transformers, biases and norms away from their start."""
    transformers = pytest.importorskip("transformers")
    family, changes = CASES[case]
    config = getattr(transformers, f"{family}Config")(**{**SMALL, **changes})
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter += 0.1 * torch.randn_like(parameter)
    model.save_pretrained(folder, **how)
    return model


@pytest.mark.parametrize("case", CASES)
def test_logits_are_those_of_transformers(case: str, tmp_path: Path) -> None:
    theirs = save_random(tmp_path, case)
    ours = load_llama(FolderSource(tmp_path)).eval()
    tokens = torch.randint(0, 61, (2, 45), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = theirs(tokens).logits
        torch.testing.assert_close(ours(tokens), expected, rtol=1e-4, atol=1e-4)
        wide = theirs.double()(tokens).logits
    assert (ours.double()(tokens) - wide).abs().max() < 3e-5  # their angles stay float32


def test_several_files(tmp_path: Path) -> None:
    theirs = save_random(tmp_path, "llama", max_shard_size="60KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    ours = load_llama(FolderSource(tmp_path))
    assert torch.equal(ours.head.weight, theirs.lm_head.weight)


def ouro_slowly(model: LoopedModel, tokens: torch.Tensor) -> torch.Tensor:
    """Ouro's public definition, written out: x + n2(attn(n1 x)), x + n4(mlp(n3 x)), norm a loop."""
    weights = {name: p.detach() for name, p in model.named_parameters()}

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weights[f"{name}.weight"]

    def turn(x: torch.Tensor) -> torch.Tensor:
        half = x.shape[-1] // 2
        angle = torch.arange(x.shape[1], dtype=x.dtype)[:, None] * 100.0 ** (
            -torch.arange(half, dtype=x.dtype) / half
        )
        cos, sin = angle.cos()[None, :, None], angle.sin()[None, :, None]
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)

    h = weights["embedding.weight"][tokens]
    batch, length = tokens.shape
    for _ in range(model.config.num_loops):
        for layer in range(model.config.num_layers):
            at = f"blocks.{layer}"
            x = norm(h, f"{at}.mixer_norm")
            q, k, v = (
                (x @ weights[f"{at}.mixer.{n}_proj.weight"].T).view(batch, length, 2, -1)
                for n in "qkv"
            )
            scores = torch.einsum("bthk,bmhk->bhtm", turn(q), turn(k)) / 8**0.5
            scores = scores.masked_fill(~torch.ones(length, length).tril().bool(), -torch.inf)
            o = torch.einsum("bhtm,bmhv->bthv", scores.softmax(-1), v).flatten(2)
            h = h + norm(o @ weights[f"{at}.mixer.o_proj.weight"].T, f"{at}.mixer_post_norm")
            x = norm(h, f"{at}.ffn_norm")
            up = x @ weights[f"{at}.ffn.w3.weight"].T
            x = torch.nn.functional.silu(x @ weights[f"{at}.ffn.w1.weight"].T) * up
            h = h + norm(x @ weights[f"{at}.ffn.w2.weight"].T, f"{at}.ffn_post_norm")
        h = norm(h, "norm")
    return h @ weights["head.weight"].T


OURO = {
    "model_type": "ouro",
    "vocab_size": 31,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "total_ut_steps": 3,
    "rms_norm_eps": 1e-6,
    "rope_theta": 100.0,
    "hidden_act": "silu",
    "layer_types": ["full_attention", "full_attention"],
    "sliding_window": None,
    "use_sliding_window": False,
}


def test_ouro_is_its_definition(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    config = looped_config(OURO, "here")
    generator = torch.Generator().manual_seed(2)
    shapes = {n: p.shape for n, p in LoopedModel(config).named_parameters()}
    tensors = {
        theirs: torch.randn(shapes[ours], generator=generator) * 0.3
        for ours, theirs in tensor_names(config).items()
    }
    assert "model.layers.1.input_layernorm_2.weight" in tensors
    assert tensors["model.early_exit_gate.bias"].shape == (1,)
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(OURO))
    model = load_llama(FolderSource(tmp_path), dtype=torch.float64)
    tokens = torch.randint(0, 31, (2, 11), generator=generator)
    slow = ouro_slowly(model, tokens)
    torch.testing.assert_close(model(tokens), slow, rtol=1e-9, atol=1e-9)
    assert (model.config.num_loops, model.config.loop_loss) == (3, "expected")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "gemma2"}, "its norms are 1 [+] w"),
        ({"model_type": "qwen3_moe"}, "it has experts"),
        ({"model_type": "strange"}, "'strange' is not allowed"),
        ({"hidden_act": "gelu"}, "hidden_act: 'gelu'"),
        ({"mlp_bias": True}, "mlp_bias: True"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "rope_type: 'yarn'"),
        ({"rope_parameters": {"rope_type": "dynamic"}}, "rope_type: 'dynamic'"),
        ({"num_hidden_layers": 0}, "num_hidden_layers: 0"),
        ({"use_sliding_window": True, "sliding_window": 4, "layer_types": ["x"]}, "layer_types"),
    ],
)
def test_what_we_cannot_represent_is_refused_with_the_reason(
    change: dict[str, Any], message: str
) -> None:
    config = {**SMALL, "model_type": "qwen2", **change}
    with pytest.raises(ValueError, match=message):
        looped_config(config, "here")


def test_older_settings_of_the_rotation() -> None:
    older = {k: v for k, v in LLAMA3.items() if k not in ("rope_type", "rope_theta")}
    config = {**SMALL, "model_type": "llama", "rope_theta": 300.0}
    new = {**SMALL, "model_type": "llama", "rope_parameters": LLAMA3}
    for key in ("type", "rope_type"):
        same = looped_config({**config, "rope_scaling": {key: "llama3", **older}}, "here")
        assert same == looped_config(new, "here")


def test_damaged_checkpoints(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    with pytest.raises(ValueError, match=r"no config\.json"):
        FolderSource(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(OURO))
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(ValueError, match="is a pickle, which is not read"):
        FolderSource(tmp_path)
    save_random(tmp_path, "llama")
    good = load_file(tmp_path / "model.safetensors")
    name = "model.layers.1.self_attn.k_proj.weight"
    for changed, message in [
        ({k: v for k, v in good.items() if k != name}, f"lacks the tensor {name}"),
        ({**good, "model.extra.weight": torch.ones(2)}, "which this architecture lacks"),
        ({**good, name: torch.ones(8, 48)}, r"shape \(8, 48\)"),
    ]:
        save_file(changed, tmp_path / "model.safetensors")
        with pytest.raises(ValueError, match=message):
            load_llama(FolderSource(tmp_path))
    (tmp_path / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="cannot be read"):
        FolderSource(tmp_path)
