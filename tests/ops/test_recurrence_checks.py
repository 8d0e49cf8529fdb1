"""What the linear recurrence refuses, by name."""

import math

import pytest
import torch

from lt2theory.ops import linear_recurrence


def arguments(factors) -> dict[str, torch.Tensor | None]:
    return {name: getattr(factors, name) for name in ("q", "k", "v", "log_decay", "beta")}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"q": torch.ones(2, 5, 4)}, "q must be a floating tensor"),
        ({"q": torch.ones(2, 5, 2, 4, dtype=torch.int64)}, "q must be a floating tensor"),
        ({"k": torch.ones(2, 5, 4)}, "k must have 4 axes, or 5"),
        ({"k": torch.ones(2, 6, 2, 4)}, r"k must have shape \(2, 5, 2, 4\)"),
        ({"k": torch.ones(2, 5, 0, 2, 4)}, "k must have at least one factor"),
        ({"k": torch.ones(2, 5, 2, 3)}, r"k must have shape \(2, 5, 2, 4\)"),
        ({"v": torch.ones(2, 5, 3, 6)}, r"v must have shape \(2, 5, 2, 6\)"),
        ({"v": torch.ones(2, 5, 2, 6).double()}, "v must be torch.float32 as q is"),
        ({"log_decay": torch.zeros(2, 5, 2, 6)}, r"log_decay must have shape \(2, 5, 2, 4\)"),
        ({"log_decay": torch.zeros(2, 5)}, r"log_decay must have shape \(2, 5, 2\)"),
        ({"log_decay": torch.zeros(2, 5, 2).half()}, "log_decay must be torch.float32"),
        ({"beta": torch.ones(2, 5, 1, 2)}, r"beta must have shape \(2, 5, 2\)"),
        ({"write": torch.ones(2, 5, 2, 1)}, r"write must have shape \(2, 5, 2\)"),
        ({"beta": torch.ones(2, 5, 2, device="meta")}, "beta must be on cpu"),
        (
            {"initial_state": torch.ones(2, 2, 6, 4)},
            r"initial_state must have shape \(2, 2, 4, 6\)",
        ),
        ({"initial_state": torch.ones(2, 2, 4, 6).half()}, "initial_state must be torch.float32"),
        (
            {"order": "sideways"},
            "order: 'sideways' is not allowed .choose from decay_first, erase_first",
        ),
        (
            {"backend": "abacus"},
            "backend of .*: 'abacus' is not allowed .choose from auto, reference, chunked, fla, t",
        ),
    ],
)
def test_wrong_arguments_are_named(change, message):
    given = {"q": torch.ones(2, 5, 2, 4), "k": torch.ones(2, 5, 2, 4), "v": torch.ones(2, 5, 2, 6)}
    with pytest.raises(ValueError, match=message):
        linear_recurrence(**{**given, **change})


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("log_decay", 0.1, "log_decay must be at most 0 and not NaN, got a maximum of 0.1"),
        ("log_decay", math.nan, "log_decay must be at most 0 and not NaN"),
        ("beta", math.nan, "beta must be finite"),
        ("q", math.inf, "q must be finite"),
        ("initial_state", math.nan, "initial_state must be finite"),
    ],
)
def test_values_are_looked_at_only_under_check(make_factors, name, value, message):
    given = arguments(make_factors(length=5, decay="scalar", beta="uniform"))
    given["initial_state"] = torch.zeros(2, 2, 4, 3, dtype=torch.float64)
    linear_recurrence(**given, check=True)
    given[name][1, 1] = value
    linear_recurrence(**given)
    with pytest.raises(ValueError, match=message):
        linear_recurrence(**given, check=True)


def test_check_allows_a_decay_of_zero(make_factors):
    given = arguments(make_factors(length=5, decay="scalar"))
    given["log_decay"][:, 2] = -math.inf
    assert torch.isfinite(linear_recurrence(**given, check=True)).all()
