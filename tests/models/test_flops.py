"""Products of a step by hand: seven rows of five tokens."""

import pytest

from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.models.flops import forward_flops, step_flops, token_flops
from lt2theory.models.parameters import applied_weights, parameter_count, visited_parameters


def small(pattern: str, loop_state: str = "rescan") -> LoopedConfig:
    return LoopedConfig.model_validate(
        {
            "vocab_size": 10,
            "width": 8,
            "num_layers": 2,
            "num_loops": 3,
            "pattern": pattern,
            "loop_state": loop_state,
            "num_heads": 2,
            "ffn_width": 16,
        }
    )


FFN = 3 * 8 * 16
GDN = FFN + 5 * 8 * 8 + 2 * 8 * 2
"""q, k, v, gate and output; beta and decay of two heads."""
FULL = FFN + 4 * 8 * 8


@pytest.mark.parametrize(
    ("pattern", "loop_state", "weights", "op"),
    [
        ("gdn", "rescan", GDN, 3 * 6 * 2 * 4 * 4),
        ("gdn", "accumulate", GDN, 6 * 6 * 2 * 4 * 4),
        ("full", "rescan", FULL, 3 * 2 * 2 * 8 * 6 / 2),
        # The five queries of a window of two read 1, 2, 2, 2 and 2 keys.
        ("window(2)", "rescan", FULL, 3 * 2 * 2 * 8 * 9 / 5),
        ("window(64)", "rescan", FULL, 3 * 2 * 2 * 8 * 6 / 2),
    ],
)
def test_flops(pattern: str, loop_state: str, weights: int, op: float) -> None:
    expected = 3 * 7 * 5 * (2 * op + 2 * (3 * 2 * weights + 8 * 10))
    assert step_flops(small(pattern, loop_state), 7, 5) == pytest.approx(expected, rel=1e-12)


def test_parameters_are_those_of_the_model() -> None:
    config = small("gdn,full")
    model = LoopedModel(config)
    assert parameter_count(config) == sum(p.numel() for p in model.parameters())


def test_a_loop_counts_its_own_mixer() -> None:
    config = small("gdn->full->window(2)")
    parts = [2 * GDN, 2 * FULL, 2 * FULL]
    assert applied_weights(config) == sum(parts)
    ops = [6 * 2 * 4 * 4, 2 * 2 * 8 * 6 / 2, 2 * 2 * 8 * 9 / 5]
    expected = 3 * 7 * 5 * (2 * sum(ops) + 2 * (sum(parts) + 8 * 10))
    assert step_flops(config, 7, 5) == pytest.approx(expected, rel=1e-12)
    model = LoopedModel(config)
    twice = sum(p.numel() for p in model.blocks.parameters())
    other = sum(p.numel() for b in model.blocks for p in b.other_mixers.parameters())
    first = sum(p.numel() for b in model.blocks for p in b.mixer.parameters())
    assert visited_parameters(config) == 3 * (twice - other - first) + first + 2 * other


@pytest.mark.parametrize(
    ("pattern", "loop_state"),
    [
        *((pattern, "rescan") for pattern in ("gdn", "full", "window(2)", "nsa", "dsa")),
        *((pattern, "accumulate") for pattern in ("gdn", "gdn,full", "gdn->full")),
    ],
)
def test_a_text_is_its_tokens(pattern: str, loop_state: str) -> None:
    fields = {"block_size": 4, "num_blocks": 2, "window": 6, "top_k": 5}
    config = small(pattern, loop_state).model_copy(update=fields)
    whole = sum(forward_flops(config, 21).values())
    assert whole == sum(token_flops(config, context) for context in range(21))
    if pattern in ("gdn", "full", "gdn,full"):
        assert 3 * 7 * whole == pytest.approx(step_flops(config, 7, 21), rel=1e-12)


def test_a_loss_of_all_loops_reads_out_all() -> None:
    last = small("gdn")
    mean = last.model_copy(update={"loop_loss": "mean"})
    more = step_flops(mean, 7, 5) - step_flops(last, 7, 5)
    assert more == 3 * 7 * 5 * 2 * 2 * 8 * 10
