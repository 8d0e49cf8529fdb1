"""Ouro's checkpoint format, against a plain reading of its architecture under its own names."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional as F

from lt2theory.hf import LoopedLTForCausalLM
from lt2theory.hf.ouro import load_ouro, ouro_config, ouro_names
from lt2theory.models import LoopedModel, presets
from tests.hf import tiny

FIELDS: dict[str, Any] = {
    "model_type": "ouro",
    "vocab_size": 61,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 1000.0,
    "rope_scaling": None,
    "total_ut_steps": 3,
    "early_exit_threshold": 1.0,
    "tie_word_embeddings": False,
    "use_sliding_window": False,
    "layer_types": ["full_attention", "full_attention"],
}
PUBLIC = {
    **FIELDS,
    "vocab_size": 49152,
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "head_dim": 128,
    "rope_theta": 1000000.0,
    "total_ut_steps": 4,
    "layer_types": ["full_attention"] * 24,
}
"""The names of a published config.json, with the sizes of the 1.4B model."""


def weights(fields: dict[str, Any]) -> dict[str, Tensor]:
    """Random weights under the public names."""
    d, hidden, heads = (
        fields[k] for k in ("hidden_size", "intermediate_size", "num_attention_heads")
    )
    keys = d // heads * fields["num_key_value_heads"]
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": (fields["vocab_size"], d),
        "lm_head.weight": (fields["vocab_size"], d),
        "model.norm.weight": (d,),
        "model.early_exit_gate.weight": (1, d),
        "model.early_exit_gate.bias": (1,),
    }
    for i in range(fields["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        for norm in ("input_layernorm", "post_attention_layernorm"):
            shapes |= {f"{layer}.{norm}{end}.weight": (d,) for end in ("", "_2")}
        for name, rows in {"q": d, "k": keys, "v": keys, "o": d}.items():
            shapes[f"{layer}.self_attn.{name}_proj.weight"] = (rows, d)
        shapes |= {f"{layer}.mlp.{name}_proj.weight": (hidden, d) for name in ("gate", "up")}
        shapes[f"{layer}.mlp.down_proj.weight"] = (d, hidden)
    generator = torch.Generator().manual_seed(0)
    return {
        name: 0.3 * torch.randn(shape, generator=generator, dtype=torch.float64) + (len(shape) == 1)
        for name, shape in shapes.items()
    }


def reference(w: dict[str, Tensor], fields: dict[str, Any], ids: Tensor) -> tuple[Tensor, Tensor]:
    """Logits after the last loop and the exit gates of all, one row, written out."""
    n, heads = len(ids), fields["num_attention_heads"]
    width = fields["hidden_size"] // heads
    shared = heads // fields["num_key_value_heads"]
    speeds = fields["rope_theta"] ** (-torch.arange(width // 2, dtype=torch.float64) * 2 / width)
    turn = torch.polar(torch.ones(1, dtype=torch.float64), torch.arange(n)[:, None] * speeds)
    future = torch.ones(n, n, dtype=torch.bool).triu(1)

    def norm(x: Tensor, name: str) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], w[name], fields["rms_norm_eps"])

    def rotated(x: Tensor) -> Tensor:
        y = torch.complex(*x.chunk(2, -1)) * turn
        return torch.cat([y.real, y.imag], -1)

    def attention(x: Tensor, at: str) -> Tensor:
        q, k, v = (
            (x @ w[f"{at}.{name}_proj.weight"].T).unflatten(-1, (-1, width)).transpose(0, 1)
            for name in "qkv"
        )
        outs = []
        for head in range(heads):
            scores = rotated(q[head]) @ rotated(k[head // shared]).T / math.sqrt(width)
            outs.append(scores.masked_fill(future, -torch.inf).softmax(-1) @ v[head // shared])
        return torch.cat(outs, -1) @ w[f"{at}.o_proj.weight"].T

    def mlp(x: Tensor, at: str) -> Tensor:
        inner = F.silu(x @ w[f"{at}.gate_proj.weight"].T) * (x @ w[f"{at}.up_proj.weight"].T)
        return inner @ w[f"{at}.down_proj.weight"].T

    h, gates = w["model.embed_tokens.weight"][ids], []
    for _ in range(fields["total_ut_steps"]):
        for i in range(fields["num_hidden_layers"]):
            at = f"model.layers.{i}"
            mixed = attention(norm(h, f"{at}.input_layernorm.weight"), f"{at}.self_attn")
            h = h + norm(mixed, f"{at}.input_layernorm_2.weight")
            fed = mlp(norm(h, f"{at}.post_attention_layernorm.weight"), f"{at}.mlp")
            h = h + norm(fed, f"{at}.post_attention_layernorm_2.weight")
        h = norm(h, "model.norm.weight")
        gate = h @ w["model.early_exit_gate.weight"].T + w["model.early_exit_gate.bias"]
        gates.append(gate[:, 0].sigmoid())
    return h @ w["lm_head.weight"].T, torch.stack(gates)


def save(folder: Path, fields: dict[str, Any], *, shards: int = 1) -> dict[str, Tensor]:
    """Write a checkpoint as it is published."""
    own = weights(fields)
    (folder / "config.json").write_text(json.dumps(fields))
    if shards == 1:
        save_file(own, folder / "model.safetensors")
        return own
    names = sorted(own)
    files = {name: f"model-{i % shards}.safetensors" for i, name in enumerate(names)}
    for file in set(files.values()):
        save_file({name: own[name] for name in names if files[name] == file}, folder / file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    return own


@pytest.mark.parametrize("shards", [1, 3])
def test_logits_and_exits_are_those_of_the_architecture(shards: int, tmp_path: Path) -> None:
    own = save(tmp_path, FIELDS, shards=shards)
    model = load_ouro(tmp_path)
    ids = tiny.tokens(1, 11)
    logits, gates = reference(own, FIELDS, ids[0])
    torch.testing.assert_close(model(ids)[0], logits, rtol=1e-9, atol=1e-9)
    leaves = model.exit_log_probabilities(model.read_loops(ids))[:, 0].exp()
    stays = torch.cat([torch.ones_like(gates[:1]), (1 - gates[:-1]).cumprod(0)])
    torch.testing.assert_close(leaves[:-1], (gates * stays)[:-1])
    torch.testing.assert_close(leaves[-1], stays[-1])


def test_it_goes_on_under_transformers(tmp_path: Path) -> None:
    save(tmp_path, FIELDS)
    model = load_ouro(tmp_path, dtype=torch.float32)
    wrapped = LoopedLTForCausalLM.from_looped(model, eos_token_id=2)
    wrapped.save_pretrained(tmp_path / "ours")
    read = LoopedLTForCausalLM.from_pretrained(tmp_path / "ours")
    ids = tiny.tokens(2, 5)
    assert torch.equal(read(ids).logits, model(ids))


def test_the_public_configuration_is_the_preset() -> None:
    assert ouro_config(PUBLIC) == ouro_config({**PUBLIC, "head_dim": 128})
    config = ouro_config({name: value for name, value in PUBLIC.items() if name != "head_dim"})
    preset = presets()["ouro-1.4b"]
    assert config.model_copy(update={"num_kv_heads": preset.num_kv_heads}) == preset
    with torch.device("meta"):
        model = LoopedModel(config)
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    assert set(ouro_names(config)) == set(shapes)
    assert shapes["blocks.23.ffn.w1.weight"] == (5632, 2048)
    newer = {k: v for k, v in PUBLIC.items() if k not in ("rope_theta", "rope_scaling")}
    newer["rope_parameters"] = {"rope_type": "default", "rope_theta": 1000000.0}
    assert ouro_config(newer) == ouro_config(PUBLIC)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "llama"}, "model_type: 'llama'"),
        ({"hidden_act": "gelu"}, "hidden_act: 'gelu'"),
        ({"rope_scaling": {"factor": 2}}, "rope_scaling"),
        ({"layer_types": ["sliding_attention"]}, "layer_types"),
        ({"hidden_size": 15}, "num_heads"),
    ],
)
def test_other_architectures_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ouro_config({**FIELDS, **changes})


def test_damage_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"config\.json cannot be read"):
        load_ouro(tmp_path)
    own = save(tmp_path, FIELDS)
    with pytest.raises(ValueError, match="lacks total_ut_steps"):
        ouro_config({k: v for k, v in FIELDS.items() if k != "total_ut_steps"})
    gone = "model.layers.1.input_layernorm_2.weight"
    save_file({k: v for k, v in own.items() if k != gone}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=f"lacks the weight {gone}"):
        load_ouro(tmp_path)
    save_file({**own, gone: torch.zeros(3)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"has shape \(3,\); config.json says \(16,\)"):
        load_ouro(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no")
    with pytest.raises(ValueError, match=r"model\.safetensors cannot be read"):
        load_ouro(tmp_path)
