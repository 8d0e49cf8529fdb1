"""The argument checks: what they let through and the one line that they raise."""

import pytest
import torch

from lt2theory.analysis import _checks


def test_what_is_allowed_passes():
    x = torch.ones(2, 3)
    _checks.check_floating("x", x.double())
    _checks.check_like("x", x, "y", x[0])
    _checks.check_shape("x", x, (1,), (2, 3))
    _checks.check_order("erase_first")
    _checks.check_at_least("n", 1, 1)
    _checks.check_interval("p", 0.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: _checks.check_floating("x", x.half()), "x: torch.float16 .*float32 or float64"),
        (lambda x: _checks.check_like("x", x, "y", x.double()), "y: torch.float64 .*as x"),
        (lambda x: _checks.check_like("x", x, "y", x.to("meta")), "y: device meta .*cpu, as x"),
        (
            lambda x: _checks.check_shape("x", x, (2,), (3, 2)),
            r"x: shape \[2, 3\] .*\[2\] or \[3, 2\]",
        ),
        (lambda x: _checks.check_order("last"), "order: 'last' .*decay_first, erase_first"),
        (lambda x: _checks.check_at_least("n", 0, 1), "n: 0 is not allowed .*>= 1"),
        (lambda x: _checks.check_interval("p", 1.5, 0, 1), r"p: 1.5 is not allowed .*\[0, 1\]"),
        (lambda x: _checks.check_interval("p", float("nan"), 0, 1), "p: nan is not allowed"),
    ],
)
def test_what_is_not_allowed_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(torch.ones(2, 3))
