"""What pretrained models add to a config: biases, norms of queries and keys, scaled rotation."""

from typing import Any

import pytest
import torch
from pydantic import ValidationError

from lt2theory.models import LoopedConfig, LoopedModel, prefill
from lt2theory.models.fused_layers import why_not_fused

SMALL = {"vocab_size": 13, "width": 16, "num_layers": 2, "num_heads": 4, "num_kv_heads": 2}
CASES: dict[str, dict[str, Any]] = {
    "biases": {"pattern": "full", "qkv_bias": True, "output_bias": True},
    "window-norms": {"pattern": "window(5)", "qk_norm": True, "positions": "rope"},
    "llama3": {
        "pattern": "full",
        "positions": "rope",
        "rope_scaling": "llama3",
        "rope_factor": 4.0,
        "rope_original_length": 16,
    },
    "linear": {"pattern": "full", "positions": "rope", "rope_scaling": "linear", "rope_factor": 2},
    "gdn-rotates": {"pattern": "gdn,full", "positions": "rope", "linear_rotation": "on"},
    "mlstm-rotates": {"pattern": "mlstm", "linear_rotation": "on", "num_loops": 2},
    "accumulate": {
        "pattern": "kda",
        "linear_rotation": "on",
        "num_loops": 2,
        "loop_state": "accumulate",
    },
    "retnet-does-not": {"pattern": "retnet", "linear_rotation": "off"},
}


def model_of(case: str) -> LoopedModel:
    model = LoopedModel(LoopedConfig.model_validate({**SMALL, **CASES[case]})).double()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.2 * torch.randn(parameter.shape, generator=generator).double()
    return model.eval()


@pytest.mark.parametrize("case", CASES)
def test_token_by_token_is_the_parallel_form(case: str) -> None:
    model = model_of(case)
    tokens = torch.randint(0, 13, (2, 19), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        whole = model(tokens)
        cache = model.new_cache(2)
        parts = [prefill(model, tokens[:, :11], cache, chunk=4)]
        parts += [model(tokens[:, t : t + 1], cache) for t in range(11, 19)]
    torch.testing.assert_close(torch.cat(parts[1:], 1), whole[:, 11:], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_left_padding_changes_nothing(case: str) -> None:
    model = model_of(case)
    tokens = torch.randint(0, 13, (1, 9), generator=torch.Generator().manual_seed(2))
    padded = torch.cat([torch.zeros(1, 4, dtype=torch.int64), tokens], 1)
    with torch.no_grad():
        alone, beside = model(tokens), model(padded, lengths=torch.tensor([9]))
    torch.testing.assert_close(beside[:, 4:], alone, rtol=1e-9, atol=1e-9)


def test_defaults_leave_no_trace() -> None:
    """Configs that were kept before these fields existed keep their hash."""
    kept = LoopedConfig().model_dump()
    prefixes = ("qkv_", "output_bias", "qk_norm", "rope_scaling", "rope_factor", "linear_rotation")
    assert not [name for name in kept if name.startswith((*prefixes, "rope_low", "rope_original"))]
    for case in CASES.values():
        config = LoopedConfig.model_validate({**SMALL, **case})
        assert LoopedConfig.model_validate(config.model_dump()) == config


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pattern": "full", "linear_rotation": "on"}, "has no linear layer; must be 'own'"),
        ({"linear_rotation": "on", "head_dim": 5}, "head_dim: 5 must be even for linear_rotation"),
        ({"rope_factor": 2.0}, "rope_factor: 2.0 does nothing with rope_scaling='none'"),
        (
            {"rope_scaling": "llama3", "rope_low": 4.0, "rope_high": 4.0},
            "rope_low: 4.0 must be below rope_high 4.0",
        ),
    ],
)
def test_refusals(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        LoopedConfig.model_validate({**SMALL, **change})


def test_the_fused_decoder_leaves_them_alone() -> None:
    reasons = {
        "biases": ("full", "qkv_bias"),
        "window-norms": ("window", "qk_norm"),
        "llama3": ("full", "rope_scaling 'llama3'"),
        "gdn-rotates": ("gdn", "linear_rotation 'on'"),
    }
    for case, (mixer, reason) in reasons.items():
        config = LoopedConfig.model_validate({**SMALL, **CASES[case]})
        assert reason in str(why_not_fused(config, mixer, 64))
