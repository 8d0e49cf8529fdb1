"""A preset on paper: floors by hand, and the page that lists the presets."""

from pathlib import Path

import pytest

from lt2theory.bench.model import Rates, describe_model, floor_table, list_models
from lt2theory.models import LoopedConfig, presets

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
SMALL = LoopedConfig(
    vocab_size=10, width=8, num_layers=2, num_loops=3, pattern="full", num_heads=2, ffn_width=16
)
BLOCK = 3 * 8 * 16 + 4 * 8 * 8


def test_floors_by_hand() -> None:
    """Each rate in turn so slow that it decides."""
    by_products, by_bytes = (
        floor_table(SMALL, 5, (7,), rates).to_dict("records")[0]
        for rates in (Rates(1e30, 1.0), Rates(1.0, 1e30))
    )
    pair, head, weights = 2 * 2 * 8, 2 * 8 * 10, 2 * 3 * 2 * BLOCK
    forward = 7 * (weights + head) + 3 * 2 * pair * 28
    assert by_products["gflops_per_token"] == pytest.approx(forward / 7 / 1e9)
    assert by_products["decode_ms"] == 1e3 * 5 * (weights + head + 3 * 2 * pair * 8)
    assert by_products["prefill_ms"] == 1e3 * 5 * (forward - 6 * head)
    assert by_products["train_ms"] == pytest.approx(1e3 * 3 * 5 * forward)
    cache = 5 * 7 * 3 * 2 * 16 * 2
    assert by_bytes["cache_mib"] == cache / 2**20
    read = 2 * 3 * 2 * (BLOCK + 16)  # with the gains of two norms
    assert by_bytes["decode_ms"] == 1e3 * (read + head + cache)
    assert by_bytes["prefill_ms"] == 1e3 * (read + head + cache)
    parameters = 2 * 10 * 8 + 2 * (BLOCK + 16) + 8 + 3 * 8
    assert by_bytes["train_ms"] == pytest.approx(1e3 * 32 * parameters)


def test_a_description_holds_together() -> None:
    content = describe_model("byte-1m-full-gdn", batch=2, contexts=(64, 1024))
    parameters, apart = content["parameters"], ("total", "read_by_a_token")
    total = sum(count for name, count in parameters.items() if name not in apart)
    assert parameters["total"] == total
    assert LoopedConfig.model_validate(content["config"]) == presets()["byte-1m-full-gdn"]
    assert [row["context"] for row in content["rows"]] == [64, 1024]
    with pytest.raises(ValueError, match="preset: 'byte-1m' is not allowed"):
        describe_model("byte-1m")


def test_the_page_lists_the_presets_as_they_are() -> None:
    """Its table is that of `list_models`, the toys left out."""
    rows = [
        f"| `{row.preset}` | `{row.pattern}` | {row.layers} x {row.loops} | {row.width} | "
        f"{row.parameters_m:,.1f} |"
        for row in list_models().itertuples()
        if not row.preset.startswith("toy-")
    ]
    told = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line[:3] == "| `"]
    assert told == rows
