"""The bytes of a decode step by hand, and what is measured on a GPU."""

from pathlib import Path

import pytest
import torch

from lt2theory.bench import decode
from lt2theory.bench.decode import PATTERNS, Setting, bench_decode, full_scale, step_bytes
from lt2theory.models import LoopedConfig, LoopedModel, presets
from lt2theory.models.parameters import parameter_count


def small(pattern: str) -> LoopedModel:
    return LoopedModel(
        LoopedConfig(
            vocab_size=10,
            width=8,
            num_layers=2,
            num_loops=3,
            pattern=pattern,
            num_heads=2,
            ffn_width=0,
            block_size=4,
            num_blocks=2,
            window=6,
            top_k=5,
            index_dim=3,
        )
    )


@pytest.mark.parametrize(
    ("pattern", "a_layer"),
    [
        # heads 2, keys and values 4 wide; 32 bytes a key-value pair of all heads in bfloat16.
        ("gdn", 2 * 4 * 2 * 4 * 4),
        ("full", 32 * 20),
        ("window", 32 * 6),
        ("nsa", 32 * (2 * 5 + 8 + 6)),
        ("dsa", 32 * 5 + 2 * 20 * 3),
    ],
)
def test_bytes_by_hand(pattern: str, a_layer: int) -> None:
    model = small(pattern)
    weights = 2 * (3 * sum(p.numel() for p in model.blocks.parameters()) + 10 * 8)
    assert step_bytes(model, 7, 20) == weights + 3 * 2 * 7 * a_layer


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_full_scale_models_exist(pattern: str) -> None:
    config = full_scale(pattern)
    assert (config.width, config.num_layers, config.num_loops) == (2048, 20, 4)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_cpu_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a CUDA device"):
        bench_decode([Setting("gdn", 1, 16)])


@pytest.mark.gpu
def test_every_way_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "full_scale", lambda pattern: small(PATTERNS[pattern]).config)
    table = bench_decode([Setting("gdn", 2, 32), Setting("window", 2, 32)], steps=2)
    assert list(table["way"]) == ["fused", "graph", "forward", "fused", "graph"]
    assert (table["ms"] > 0).all()
    assert (table["gpu_gib"] > 0).all()


@pytest.mark.gpu
def test_what_does_not_fit_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise torch.cuda.OutOfMemoryError

    monkeypatch.setattr(decode, "full_scale", lambda pattern: small(PATTERNS[pattern]).config)
    monkeypatch.setattr(decode, "decoder_at", refuse)
    table = bench_decode([Setting("gdn", 2, 32)], steps=2)
    assert list(table["way"]) == ["out of memory"]
    assert table["ms"].isna().all()


def test_the_page_says_how_the_timed_models_differ_from_the_presets() -> None:
    page = (Path(__file__).parents[2] / "docs" / "performance.md").read_text()
    counts = [parameter_count(full_scale(pattern)) / 1e9 for pattern in ("gdn", "full")]
    said = "20 layers and an untied head (GDN {:.2f}B parameters, softmax {:.2f}B)".format(*counts)
    assert said in page.replace("\n", " ")
    assert (full_scale("gdn").num_layers, full_scale("gdn").tie_embeddings) == (20, False)
    preset = presets()["lt2-1.3b-gdn"]
    assert (preset.num_layers, preset.tie_embeddings) == (21, True)
