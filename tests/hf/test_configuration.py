"""The configuration: everything of a LoopedConfig comes back, and nothing is renamed on the way."""

import json
from pathlib import Path

import pytest
from transformers import AutoConfig

from lt2theory.hf import LoopedLTConfig
from lt2theory.models import LoopedConfig, toys


@pytest.mark.parametrize("name", ["toy-gdn", "toy-dsa", "toy-loop-full-window"])
def test_saved_configurations_come_back(name: str, tmp_path: Path) -> None:
    own = toys()[name]
    LoopedLTConfig(own, eos_token_id=3, dtype="bfloat16").save_pretrained(tmp_path)
    read = AutoConfig.from_pretrained(tmp_path)
    assert isinstance(read, LoopedLTConfig)
    assert read.looped_config == own
    assert (read.eos_token_id, str(read.dtype)) == (3, "torch.bfloat16")


def test_every_field_is_written_at_its_default_too(tmp_path: Path) -> None:
    LoopedLTConfig().save_pretrained(tmp_path)
    written = json.loads((tmp_path / "config.json").read_text())
    assert set(written["looped"]) == set(LoopedConfig.model_fields)
    assert written["model_type"] == "looped_lt"


def test_names_of_generation_settings_stay_fields_of_the_model() -> None:
    own = LoopedConfig(pattern="dsa", top_k=7, positions="learned", max_length=9)
    config = LoopedLTConfig(own)
    assert (config.looped_config.top_k, config.looped_config.max_length) == (7, 9)
    assert config.max_position_embeddings == 9


def test_names_that_other_tools_read_follow_the_model() -> None:
    config = LoopedLTConfig({"vocab_size": 99, "width": 32, "num_layers": 3, "num_heads": 2})
    sizes = (config.vocab_size, config.hidden_size, config.num_hidden_layers)
    assert (*sizes, config.num_attention_heads) == (99, 32, 3, 2)
    assert config.get_text_config() is config
    with pytest.raises(AttributeError):
        config.vocab_size = 100


def test_tied_heads_are_said_once() -> None:
    assert LoopedLTConfig({"tie_embeddings": True}, tie_word_embeddings=False).tie_word_embeddings


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"widht": 3}, "widht"), ({"num_loops": 0}, "num_loops"), ({"pattern": "gnd"}, "gnd")],
)
def test_wrong_fields_are_named(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LoopedLTConfig(fields)
