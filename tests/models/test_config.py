"""Configs and layer patterns."""

import pytest
from pydantic import ValidationError

from lt2theory.models import LayerSpec, LoopedConfig, expand_pattern


def test_the_papers_hybrid() -> None:
    """LT2's 1B yaml: 21 layers, softmax at 4, 9, 14 and 19."""
    layers = expand_pattern("gdn*4,full", 21)
    assert [i for i, layer in enumerate(layers) if layer.mixer == "full"] == [4, 9, 14, 19]


def test_bookend() -> None:
    layers = expand_pattern("bookend:gdn,window(8)", 6)
    assert [layer.mixer for layer in layers] == ["full", "gdn", "window", "gdn", "window", "full"]
    assert layers[2] == LayerSpec("window", 8)


@pytest.mark.parametrize(
    ("pattern", "num_layers", "message"),
    [
        ("gdm", 2, "'gdm' is not allowed, perhaps you meant gdn .choose from full, window"),
        ("", 2, "'' is not allowed .choose from full"),
        ("gdn(8)", 2, "only 'window"),
        ("window(0)", 2, "only 'window"),
        ("gdn*0", 2, "must be >= 1"),
        ("gdn*999999999", 2, "must be >= 1 and <= 10000"),
        ("gdn*" + "9" * 5000, 2, "is not allowed .choose from full"),
        ("window(" + "9" * 5000 + ")", 2, "is not allowed .choose from full"),
        ("gdn*3", 2, "names 3 layers, more than the 2 to fill"),
        ("bookend:gdn", 2, "num_layers: 2 is too few"),
    ],
)
def test_bad_patterns(pattern: str, num_layers: int, message: str) -> None:
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        expand_pattern(pattern, num_layers)
    with pytest.raises(ValidationError):
        LoopedConfig(pattern=pattern, num_layers=num_layers)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_heads": 3}, "num_heads: 3 does not divide width 64"),
        ({"num_kv_heads": 3}, "num_kv_heads: 3 must divide num_heads 4"),
        ({"positions": "rope", "head_dim": 5}, "head_dim: 5 must be even"),
        ({"positions": "learned"}, "max_length: None with positions='learned'"),
        ({"max_length": 9}, "max_length: 9 with positions='none'"),
        ({"pattern": "full", "loop_state": "accumulate"}, "loop_state: 'accumulate' needs"),
        ({"backend": "cuda"}, "backend: 'cuda' is not allowed .choose from auto, reference"),
        ({"num_loops": 0}, "num_loops"),
        ({"init_std": float("inf")}, "init_std"),
        ({"rope_base": float("nan")}, "rope_base"),
        ({"num_lops": 2}, "num_lops"),
        ({"vocab_size": 10**30}, "vocab_size"),
        ({"window": 10**25}, "window"),
        ({"top_k": 10**30}, "top_k"),
        ({"block_size": 10**30}, "block_size"),
        ({"num_blocks": 10**30}, "num_blocks"),
        ({"rope_base": 1e-300}, "rope_base"),
        ({"init_std": 1e39}, "init_std"),
        ({"embedding_std": 1e300}, "embedding_std"),
        ({"gate_soft_cap": 1e-300}, "gate_soft_cap"),
        ({"pattern": "gdn,dsa", "positions": "rope", "index_dim": 5}, "index_dim: 5 must be even"),
    ],
)
def test_bad_fields_are_named(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        LoopedConfig.model_validate(fields)


def test_json_round_trip() -> None:
    config = LoopedConfig(pattern="gdn*4,full", num_layers=10, window=7)
    assert LoopedConfig.model_validate_json(config.model_dump_json()) == config
    assert hash(LoopedConfig.model_validate_json(config.model_dump_json())) == hash(config)


def test_accumulate_allows_hybrids() -> None:
    assert LoopedConfig(pattern="full,gdn", loop_state="accumulate").loop_state == "accumulate"


def test_the_indexers_width_matters_where_there_is_one() -> None:
    assert LoopedConfig(pattern="full", positions="rope", index_dim=5).index_dim == 5
