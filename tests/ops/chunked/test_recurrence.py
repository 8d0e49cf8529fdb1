from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lt2theory.ops import Factors
from lt2theory.ops.chunked.recurrence import chunked_recurrence
from lt2theory.ops.reference import reference_recurrence

# float64: both ways sum the same products in another order, at most some thousand terms of size
# one, so 1e-10 leaves five digits of room. float32: 1e-4 of the largest entry, the 1e-7 of one
# operation times the growth through 130 tokens and two matrix products a chunk.
FLOAT64 = 1e-10
FLOAT32 = 1e-4

LENGTHS = [1, 2, 31, 33, 65, 130]
DECAYS = ["none", "scalar", "vector"]


def initial_state(factors: Factors, seed: int = 9) -> torch.Tensor:
    batch, _, heads, width = factors.q.shape
    generator = torch.Generator().manual_seed(seed)
    shape = (batch, heads, width, factors.v.shape[-1])
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def widened(factors: Factors) -> Factors:
    """The same numbers in float64."""
    names = ("q", "k", "v", "log_decay", "beta", "write")
    tensors = {name: getattr(factors, name) for name in names}
    return replace(factors, **{n: None if x is None else x.double() for n, x in tensors.items()})


def assert_same(actual: dict, expected: dict, tolerance: float) -> None:
    """Equal within `tolerance` of the largest entry, or of one where entries are smaller."""
    for name, target in expected.items():
        value = actual[name].to(torch.float64)
        assert torch.isfinite(value).all(), name
        size = max(1.0, target.abs().max().item())
        error = (value - target).abs().max().item()
        assert error <= tolerance * size, f"{name}: {error} of {size}"


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("beta", [None, "uniform"])
@pytest.mark.parametrize("stateful", [False, True])
def test_lengths(make_factors, gradients, length, decay, beta, stateful):
    factors = make_factors(length=length, decay=decay, beta=beta, key_width=7, value_width=5)
    state = initial_state(factors) if stateful else None
    expected = gradients(reference_recurrence, factors, state)
    assert_same(gradients(chunked_recurrence, factors, state), expected, FLOAT64)


@pytest.mark.parametrize("num_factors", [1, 2, 3])
@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("beta", [None, "uniform"])
@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("order", ["decay_first", "erase_first"])
@pytest.mark.parametrize("length", [5, 33])
def test_switches(make_factors, gradients, num_factors, decay, beta, write, order, length):
    factors = make_factors(
        length=length, num_factors=num_factors, decay=decay, beta=beta, write=write, order=order
    )
    state = initial_state(factors)
    expected = gradients(reference_recurrence, factors, state)
    assert_same(gradients(chunked_recurrence, factors, state), expected, FLOAT64)


@pytest.mark.parametrize("key_width", [1, 7, 16])
@pytest.mark.parametrize("value_width", [1, 9])
@pytest.mark.parametrize("decay", DECAYS)
def test_widths(make_factors, gradients, key_width, value_width, decay):
    factors = make_factors(
        length=37, key_width=key_width, value_width=value_width, decay=decay, beta="uniform"
    )
    state = initial_state(factors)
    expected = gradients(reference_recurrence, factors, state)
    assert_same(gradients(chunked_recurrence, factors, state), expected, FLOAT64)


@pytest.mark.parametrize("strength", ["strong", "reset", "one", "mixed"])
@pytest.mark.parametrize("kind", ["scalar", "vector"])
@pytest.mark.parametrize("beta", [None, 0.0, 1.0, 2.0])
@pytest.mark.parametrize("order", ["decay_first", "erase_first"])
@pytest.mark.parametrize("num_factors", [1, 2])
def test_extreme_decay_and_beta(make_factors, gradients, strength, kind, beta, order, num_factors):
    factors = make_factors(
        length=65, num_factors=num_factors, decay=f"{kind}-{strength}", beta=beta, order=order
    )
    state = initial_state(factors)
    expected = gradients(reference_recurrence, factors, state)
    assert_same(gradients(chunked_recurrence, factors, state), expected, FLOAT64)


@pytest.mark.parametrize("decay", ["none", "scalar-mixed", "vector-mixed", "vector-strong"])
@pytest.mark.parametrize("beta", [None, "uniform", 2.0])
@pytest.mark.parametrize("order", ["decay_first", "erase_first"])
def test_float32(make_factors, gradients, decay, beta, order):
    settings = {"length": 130, "key_width": 16, "decay": decay, "beta": beta, "order": order}
    narrow = make_factors(**settings, dtype=torch.float32)
    # The reference sees the very numbers that float32 can hold.
    wide = widened(narrow)
    state = initial_state(wide).float()
    expected = gradients(reference_recurrence, wide, state.double())
    assert_same(gradients(chunked_recurrence, narrow, state), expected, FLOAT32)


def test_small_decays_keep_their_digits_behind_resets(make_factors):
    """After 20 resets of -1000 a float32 running sum has lost every decay below 0.001."""
    factors = make_factors(length=32, decay="scalar", beta="uniform", dtype=torch.float32)
    log_decay = torch.full_like(factors.log_decay, -3e-4)
    log_decay[:, :20] = -1000.0
    factors = replace(factors, log_decay=log_decay)
    wide = widened(factors)
    output, _ = chunked_recurrence(factors)
    expected, _ = reference_recurrence(wide)
    torch.testing.assert_close(output.double(), expected, atol=3e-6, rtol=0)


@pytest.mark.parametrize("kind", ["scalar", "vector"])
def test_decay_of_exactly_zero(make_factors, gradients, kind):
    factors = make_factors(length=21, decay=kind, beta="uniform")
    log_decay = factors.log_decay.clone()
    log_decay[:, ::4] = -torch.inf
    factors = replace(factors, log_decay=log_decay)
    state = initial_state(factors)
    expected = gradients(reference_recurrence, factors, state)
    assert_same(gradients(chunked_recurrence, factors, state), expected, FLOAT64)


@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("beta", [None, "uniform"])
@pytest.mark.parametrize("order", ["decay_first", "erase_first"])
@pytest.mark.parametrize("num_factors", [1, 2])
def test_first_and_second_derivatives(make_factors, decay, beta, order, num_factors):
    factors = make_factors(
        length=5 - num_factors,
        num_factors=num_factors,
        key_width=2,
        value_width=1,
        batch=1,
        heads=1,
        decay=decay,
        beta=beta,
        order=order,
    )
    names = [n for n in ("q", "k", "v", "log_decay", "beta") if getattr(factors, n) is not None]
    inputs = [getattr(factors, name).requires_grad_() for name in names]
    inputs.append(initial_state(factors).requires_grad_())

    def run(*tensors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        given_factors = replace(factors, **dict(zip(names, tensors[:-1], strict=True)))
        # Two tokens a chunk, so that states are passed between chunks.
        return chunked_recurrence(given_factors, tensors[-1], chunk_tokens=2)

    assert torch.autograd.gradcheck(run, inputs)
    assert torch.autograd.gradgradcheck(run, inputs)


@pytest.mark.parametrize("chunk_tokens", [2, 4, 16, 64])
@pytest.mark.parametrize("decay", DECAYS)
def test_chunk_size_does_not_matter(make_factors, gradients, chunk_tokens, decay):
    factors = make_factors(length=35, num_factors=2, decay=decay, beta="uniform")

    def run(factors, state):
        return chunked_recurrence(factors, state, chunk_tokens=chunk_tokens)

    state = initial_state(factors)
    expected = gradients(reference_recurrence, factors, state)
    assert_same(gradients(run, factors, state), expected, FLOAT64)


@pytest.mark.parametrize("bound", [-0.5, -5.0, -20.0, -1000.0])
@pytest.mark.parametrize("beta", [None, "uniform"])
@pytest.mark.parametrize("num_factors", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_known_bound_on_the_decay(make_factors, gradients, bound, beta, num_factors, dtype):
    """Decays all at the bound spread the exponents as far as they may go."""
    factors = make_factors(
        length=37, num_factors=num_factors, key_width=7, decay="vector", beta=beta, dtype=dtype
    )
    log_decay = factors.log_decay * -bound
    log_decay[:, 16:] = bound
    factors = replace(factors, log_decay=log_decay)

    def run(factors, state):
        return chunked_recurrence(factors, state, min_log_decay=bound)

    state = initial_state(factors).to(dtype)
    expected = gradients(reference_recurrence, widened(factors), state.double())
    tolerance = FLOAT64 if dtype == torch.float64 else FLOAT32
    assert_same(gradients(run, factors, state), expected, tolerance)


# The fixtures are plain functions without a state, so sharing them between examples is harmless.
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_random_configurations(make_factors, gradients, data):
    draw = data.draw
    factors = make_factors(
        length=draw(st.integers(1, 80)),
        num_factors=draw(st.integers(1, 5)),
        key_width=draw(st.integers(1, 9)),
        value_width=draw(st.integers(1, 9)),
        batch=draw(st.integers(1, 3)),
        heads=draw(st.integers(1, 3)),
        decay=draw(st.sampled_from([*DECAYS, "scalar-mixed", "vector-mixed", "vector-reset"])),
        beta=draw(st.sampled_from([None, "uniform", 0.0, 1.0, 2.0])),
        write=draw(st.booleans()),
        order=draw(st.sampled_from(["decay_first", "erase_first"])),
        seed=draw(st.integers(0, 2**31)),
    )
    state = initial_state(factors) if draw(st.booleans()) else None
    expected = gradients(reference_recurrence, factors, state)
    assert_same(gradients(chunked_recurrence, factors, state), expected, FLOAT64)


@pytest.mark.parametrize("empty", ["batch", "length", "heads", "value_width"])
@pytest.mark.parametrize("decay", ["none", "scalar", "vector"])
def test_nothing_to_do(make_factors: Callable[..., Factors], empty: str, decay: str) -> None:
    factors = make_factors(**{"length": 5, empty: 0}, decay=decay, beta="uniform")
    o, state = chunked_recurrence(factors)
    expected, expected_state = reference_recurrence(factors)
    assert torch.equal(o, expected)
    assert torch.equal(state, expected_state)
    assert o.shape == (*factors.q.shape[:-1], factors.v.shape[-1])
