import math
from dataclasses import replace

import pytest
import torch

from lt2theory.ops import linear_recurrence, run_factors

BACKENDS = ["reference", "chunked"]
SWITCHES = ["log_decay", "beta", "write"]


def arguments(factors) -> dict[str, torch.Tensor | None]:
    return {name: getattr(factors, name) for name in ("q", "k", "v", *SWITCHES)}


@pytest.mark.parametrize("backend", [*BACKENDS, "auto"])
@pytest.mark.parametrize("decay", ["none", "scalar", "vector"])
def test_factor_axis_is_optional(make_factors, backend, decay):
    factors = make_factors(length=9, decay=decay, beta="uniform", write=True)
    with_axis = arguments(factors)
    without = {
        name: x if x is None or name == "q" else x.squeeze(2) for name, x in with_axis.items()
    }
    output, state = linear_recurrence(**without, backend=backend, return_state=True)
    expected, expected_state = linear_recurrence(**with_axis, backend=backend, return_state=True)
    assert torch.equal(output, expected)
    assert torch.equal(state, expected_state)
    assert torch.equal(linear_recurrence(**without, backend=backend), expected)
    assert torch.equal(run_factors(factors, backend=backend, return_state=False), expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_skip_adds_the_last_factors_own_value(make_factors, backend):
    factors = make_factors(length=9, num_factors=3, decay="scalar", write=True)
    skip = torch.tensor([0.5, -2.0], dtype=torch.float64)
    plain, state = run_factors(factors, backend=backend)
    output, same = run_factors(replace(factors, skip=skip), backend=backend)
    own = torch.stack([0.5 * factors.v[:, :, 2, 0], -2.0 * factors.v[:, :, 2, 1]], 2)
    torch.testing.assert_close(output, plain + own, rtol=0, atol=1e-14)
    assert torch.equal(same, state)


@pytest.mark.parametrize("backend", BACKENDS)
def test_factors_are_micro_steps(make_factors, backend):
    """Two factors a token equal a sequence of twice the length that is read at every other step."""
    factors = make_factors(length=10, num_factors=2, decay="vector", beta="uniform")
    given = arguments(factors)
    stretched = {n: None if x is None or n == "q" else x.flatten(1, 2) for n, x in given.items()}
    stretched["q"] = factors.q.repeat_interleave(2, 1)
    expected = linear_recurrence(**stretched, backend="reference")[:, 1::2]
    output = linear_recurrence(**given, backend=backend)
    torch.testing.assert_close(output, expected, atol=1e-11, rtol=0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_write_and_scale_defaults(make_factors, backend):
    erasing = make_factors(length=6, beta="uniform")
    plain = make_factors(length=6)
    for factors, write in ((erasing, erasing.beta), (plain, torch.ones_like(erasing.beta))):
        given = arguments(factors)
        output = linear_recurrence(**given, backend=backend)
        explicit = linear_recurrence(
            **{**given, "write": write}, scale=1 / math.sqrt(4), backend=backend
        )
        torch.testing.assert_close(output, explicit, atol=1e-12, rtol=0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("cut", [0, 1, 16, 20, 36, 37])
@pytest.mark.parametrize("order", ["decay_first", "erase_first"])
def test_split_anywhere_and_pass_the_state(make_factors, backend, cut, order):
    factors = make_factors(length=37, num_factors=2, decay="vector", beta="uniform")
    given = arguments(factors)
    settings = {"order": order, "backend": backend, "return_state": True}
    whole, final = linear_recurrence(**given, **settings)
    first = {name: None if x is None else x[:, :cut] for name, x in given.items()}
    second = {name: None if x is None else x[:, cut:] for name, x in given.items()}
    head, state = linear_recurrence(**first, **settings)
    tail, last = linear_recurrence(**second, initial_state=state, **settings)
    torch.testing.assert_close(torch.cat([head, tail], 1), whole, atol=1e-11, rtol=0)
    torch.testing.assert_close(last, final, atol=1e-11, rtol=0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("decay", ["none", "scalar", "vector"])
def test_no_output_depends_on_a_later_token(make_factors, backend, decay):
    factors = make_factors(length=40, num_factors=2, decay=decay, beta="uniform", write=True)
    given = arguments(factors)
    before = linear_recurrence(**given, backend=backend)
    for position in (0, 15, 16, 39):
        changed = {}
        for name, x in given.items():
            changed[name] = None if x is None else x.clone()
            if x is not None:
                changed[name][:, position] = 0.5 * x[:, position] - 0.1
        after = linear_recurrence(**changed, backend=backend)
        assert torch.equal(after[:, :position], before[:, :position])
        assert not torch.allclose(after[:, position], before[:, position])


@pytest.mark.parametrize("backend", [*BACKENDS, "auto"])
def test_empty_sequence(make_factors, backend):
    given = arguments(make_factors(length=0, decay="vector", beta="uniform"))
    output, state = linear_recurrence(**given, backend=backend, return_state=True)
    assert output.shape == (2, 0, 2, 3)
    assert torch.equal(state, torch.zeros(2, 2, 4, 3, dtype=torch.float64))
    initial = torch.ones(2, 2, 4, 3, dtype=torch.float64)
    _, state = linear_recurrence(**given, initial_state=initial, backend=backend, return_state=True)
    assert torch.equal(state, initial)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(make_factors, dtype):
    given = arguments(make_factors(length=40, decay="scalar", beta="uniform", dtype=dtype))
    output, state = linear_recurrence(**given, backend="chunked", return_state=True)
    expected, expected_state = linear_recurrence(**given, backend="reference", return_state=True)
    assert output.dtype == dtype
    assert state.dtype == torch.float32
    torch.testing.assert_close(state, expected_state, atol=1e-5, rtol=1e-5)
    # One unit in the last place of the cast.
    torch.testing.assert_close(output, expected, atol=1e-3, rtol=2 * torch.finfo(dtype).eps)
