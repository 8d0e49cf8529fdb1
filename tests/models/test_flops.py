"""Products of a step by hand: seven rows of five tokens."""

import pytest

from lt2theory.models import LoopedConfig, LoopedModel
from lt2theory.models.flops import parameter_count, step_flops


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
