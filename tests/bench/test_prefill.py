"""The products of a prefill by hand, what is read, and what is measured on a GPU."""

import pytest
import torch

from lt2theory.bench import prefill
from lt2theory.bench.prefill import Setting, bench_prefill, model_config, prefill_flops, reader
from lt2theory.models import LoopedConfig, LoopedModel


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
            index_heads=2,
            index_dim=3,
        )
    ).double()


@pytest.mark.parametrize(
    ("pattern", "a_layer"),
    [
        # 9 tokens; heads 2, keys and values 4 wide: 32 a pair of query and key.
        ("gdn", 9 * 6 * 2 * 4 * 4),
        ("full", 32 * 45),
        ("window", 32 * (21 + 3 * 6)),
        # two blocks are complete after 4 and 8 tokens; selected: at most 8 keys
        ("nsa", 32 * ((4 * 1 + 2 * 2) + (36 + 8) + (21 + 3 * 6))),
        ("dsa", 32 * (15 + 4 * 5) + 2 * 2 * 3 * 45),
    ],
)
def test_products_by_hand(pattern: str, a_layer: int) -> None:
    model = small(pattern)
    matrices = sum(p.numel() for p in model.blocks.parameters() if p.dim() == 2)
    expected = 5 * (3 * (2 * 9 * matrices + 2 * a_layer) + 2 * 8 * 10)
    assert prefill_flops(model, 5, 9) == expected


@pytest.mark.parametrize("pattern", ["gdn", "full", "window", "nsa", "gdn,dsa"])
def test_pieces_give_the_logits_of_one_call(pattern: str) -> None:
    model = small(pattern)
    whole, pieces = (reader(model, Setting("gdn", 2, 23, chunk))() for chunk in (0, 7))
    assert whole.shape == (2, 10)
    torch.testing.assert_close(pieces, whole, atol=1e-12, rtol=0)


def test_the_setting_decides_the_model() -> None:
    config = model_config(Setting("gdn-dsa", 8, 64, backend="triton", layers=5))
    assert (config.backend, config.num_layers, config.layers[4].mixer) == ("triton", 5, "dsa")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_cpu_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a CUDA device"):
        bench_prefill([Setting("gdn", 1, 16)])


def test_rows_that_do_not_fit_are_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def timed(call, repeats):
        tried.append(len(call()))
        if tried[-1] > 2:
            raise torch.cuda.OutOfMemoryError
        return 4.0

    monkeypatch.setattr(prefill, "median_ms", timed)
    for name in ("empty_cache", "reset_peak_memory_stats"):
        monkeypatch.setattr(torch.cuda, name, lambda: None)
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: 2**30)
    assert prefill._largest_fit(small("gdn"), Setting("gdn", 8, 3), 1) == (2, 4.0, 1.0)
    assert tried == [8, 4, 2]


@pytest.mark.gpu
def test_growth_is_over_the_shortest_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefill, "model_config", lambda setting: small(setting.pattern).config)
    table = bench_prefill([Setting("gdn", 2, 64), Setting("gdn", 2, 32)], repeats=2)
    assert list(table["context"]) == [32, 64]
    assert table["growth"][0] == 1.0
    assert (table["ms"] > 0).all()
