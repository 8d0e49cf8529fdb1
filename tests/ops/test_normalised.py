"""Normalised recurrences against the paper's own equations, token by token."""

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import pytest
import torch
from torch import Tensor

from lt2theory.ops import Factors, run_factors, run_normalised, stabilise

FLOAT64 = 1e-10  # the same sums in another order, as in test_chunked.py
NAMES = ("q", "k", "v", "log_decay", "log_write")


@pytest.fixture
def make(make_factors: Callable[..., Factors]) -> Callable[..., Factors]:
    """Normalised factors; `gates` multiplies standard normal input gates."""

    def build(gates: float = 1.0, seed: int = 0, **changes: object) -> Factors:
        factors = make_factors(**{"decay": "scalar", "write": True, "seed": seed, **changes})
        assert factors.write is not None
        return replace(factors, write=None, log_write=gates * factors.write)

    return build


def by_the_paper(factors: Factors) -> Tensor:
    """xLSTM, equations 19 to 27, without a stabiliser and with f factors a token."""
    batch, length, count, heads, width = factors.k.shape
    memory = factors.v.new_zeros(batch, heads, width, factors.v.shape[-1])
    normaliser = factors.v.new_zeros(batch, heads, width)
    outputs = []
    for t in range(length):
        for f in range(count):
            decay = factors.log_decay[:, t, f].exp()
            decay = decay if decay.dim() == 3 else decay.unsqueeze(-1)
            gate = factors.log_write[:, t, f].exp().unsqueeze(-1)
            key, value = factors.k[:, t, f] * width**-0.5, factors.v[:, t, f]
            memory = decay.unsqueeze(-1) * memory + (gate * key).unsqueeze(-1) * value[:, :, None]
            normaliser = decay * normaliser + gate * key
        query = factors.q[:, t]
        weight = (normaliser * query).sum(-1, keepdim=True).abs()
        read = (memory * query.unsqueeze(-1)).sum(-2)
        outputs.append(read / torch.maximum(weight, torch.ones_like(weight)))
    return torch.stack(outputs, 1)


def by_the_stabilised_paper(factors: Factors) -> Tensor:
    """Equations 25 to 27 with the paper's stabiliser, which sinks without a floor; one factor."""
    batch, length, _, heads, width = factors.k.shape
    memory = factors.v.new_zeros(batch, heads, width, factors.v.shape[-1])
    normaliser = factors.v.new_zeros(batch, heads, width)
    log_max = factors.v.new_zeros(batch, heads)
    outputs = []
    for t in range(length):
        decay, gate = factors.log_decay[:, t, 0], factors.log_write[:, t, 0]
        highest = torch.maximum(decay + log_max, gate)
        forget = (decay + log_max - highest).exp().unsqueeze(-1)
        write = (gate - highest).exp().unsqueeze(-1)
        key, value, query = factors.k[:, t, 0] * width**-0.5, factors.v[:, t, 0], factors.q[:, t]
        memory = forget[..., None] * memory + (write * key)[..., None] * value[:, :, None]
        normaliser = forget * normaliser + write * key
        weight = (normaliser * query).sum(-1).abs()
        read = (memory * query.unsqueeze(-1)).sum(-2)
        outputs.append(read / torch.maximum(weight, (-highest).exp()).unsqueeze(-1))
        log_max = highest
    return torch.stack(outputs, 1)


def with_gradients(run: Callable[[Factors], Tensor], factors: Factors) -> dict[str, Tensor]:
    """The outputs, and the gradient of a random projection of them to every input."""
    leaves = {name: getattr(factors, name).detach().clone().requires_grad_() for name in NAMES}
    output = run(replace(factors, **leaves))
    weights = torch.randn(output.shape, generator=torch.Generator().manual_seed(3)).to(output)
    found = torch.autograd.grad((output * weights).sum(), list(leaves.values()))
    return {"output": output.detach(), **dict(zip(NAMES, found, strict=True))}


def assert_same(actual: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float) -> None:
    for name, target in expected.items():
        assert torch.isfinite(actual[name]).all(), name
        size = max(1.0, target.abs().max().item())
        error = (actual[name] - target).abs().max().item()
        assert error <= tolerance * size, f"{name}: {error} of {size}"


@pytest.mark.parametrize("backend", ["reference", "chunked"])
@pytest.mark.parametrize("num_factors", [1, 3])
@pytest.mark.parametrize("length", [1, 2, 37])
@pytest.mark.parametrize("decay", ["scalar", "vector", "scalar-one", "scalar-strong"])
@pytest.mark.parametrize("gates", [0.1, 3.0])
def test_values_and_gradients_are_the_papers(
    make: Callable[..., Factors],
    backend: str,
    num_factors: int,
    length: int,
    decay: str,
    gates: float,
) -> None:
    factors = make(
        gates, length=length, num_factors=num_factors, decay=decay, key_width=5, value_width=3
    )
    assert_same(
        with_gradients(lambda one: run_normalised(one, backend=backend)[0], factors),
        with_gradients(by_the_paper, factors),
        FLOAT64,
    )


def test_both_sides_of_the_normaliser_occur(make: Callable[..., Factors]) -> None:
    """Or the comparisons above would never see its gradient."""
    factors = make(3.0, length=37, key_width=5)
    plain = stabilise(factors)
    read, _ = run_factors(plain.factors)
    above = read[..., -1].abs() > torch.exp(-plain.log_max)
    assert above.any()
    assert not above.all()


def test_the_normaliser_has_a_gradient(make: Callable[..., Factors]) -> None:
    """Dividing by a constant, as some kernels' backward does, gives other gradients."""
    factors = make(3.0, length=37, key_width=5)

    def without(one: Factors) -> Tensor:
        plain = stabilise(one)
        read, _ = run_factors(plain.factors)
        return plain.normalise(torch.cat([read[..., :-1], read[..., -1:].detach()], -1))

    right = with_gradients(lambda one: run_normalised(one)[0], factors)
    wrong = with_gradients(without, factors)
    torch.testing.assert_close(wrong["output"], right["output"])
    assert (wrong["q"] - right["q"]).abs().max() > 0.01


@pytest.mark.parametrize("backend", ["reference", "chunked"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_extreme_gates(make: Callable[..., Factors], backend: str, dtype: torch.dtype) -> None:
    """Input gates of e^80 and e^-80 among forget gates of e^-80 and 1."""
    factors = make(length=65, key_width=5)
    picks = torch.rand(factors.log_write.shape, generator=torch.Generator().manual_seed(2))
    gate = factors.log_write.masked_fill(picks < 0.2, 80.0).masked_fill(picks > 0.7, -80.0)
    decay = factors.log_decay.masked_fill((picks > 0.4) & (picks < 0.5), -80.0)
    decay = decay.masked_fill((picks > 0.5) & (picks < 0.7), 0.0)
    factors = replace(factors, log_write=gate, log_decay=decay)
    expected = with_gradients(by_the_stabilised_paper, factors)
    narrow = replace(factors, **{name: getattr(factors, name).to(dtype) for name in NAMES})
    if dtype == torch.float32:
        exact = {name: getattr(narrow, name).double() for name in NAMES}
        expected = with_gradients(by_the_stabilised_paper, replace(factors, **exact))
    found = with_gradients(lambda one: run_normalised(one, backend=backend)[0], narrow)
    found = {name: x.double() for name, x in found.items()}
    # float32: cancelling weights make outputs and gradients of up to some thousand, of which
    # 1e-7 of rounding times 65 tokens is lost.
    assert_same(found, expected, FLOAT64 if dtype == torch.float64 else 1e-4)


@pytest.mark.parametrize("gate", [-800.0, 800.0])
def test_gates_beyond_every_exponential(make: Callable[..., Factors], gate: float) -> None:
    factors = make(length=9)
    factors = replace(factors, log_write=torch.full_like(factors.log_write, gate))
    found = with_gradients(lambda one: run_normalised(one)[0], factors)
    assert all(torch.isfinite(x).all() for x in found.values())
    if gate < 0:
        assert torch.equal(found["output"], torch.zeros_like(found["output"]))


def test_a_zero_query_reads_zero_behind_the_largest_gates(make: Callable[..., Factors]) -> None:
    factors = make(length=9)
    factors = replace(
        factors,
        q=torch.zeros_like(factors.q),
        log_write=torch.full_like(factors.log_write, 800.0),
    )
    output, _, _ = run_normalised(factors)
    assert torch.equal(output, torch.zeros_like(output))


@pytest.mark.parametrize("num_factors", [1, 2])
def test_the_stabiliser_is_its_recursion(make: Callable[..., Factors], num_factors: int) -> None:
    factors = make(5.0, length=21, num_factors=num_factors)
    start = torch.rand(2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 9
    plain = stabilise(factors, start)
    value = start
    for t in range(21):
        for f in range(num_factors):
            decay, gate = factors.log_decay[:, t, f], factors.log_write[:, t, f]
            after = torch.maximum(decay + value, gate.clamp(min=0))
            torch.testing.assert_close(plain.factors.write[:, t, f], (gate - after).exp())
            torch.testing.assert_close(plain.factors.log_decay[:, t, f], decay + value - after)
            value = after
        torch.testing.assert_close(plain.log_max[:, t], value)
    assert plain.factors.log_decay.max() <= 1e-14
    assert plain.factors.write.max() <= 1 + 1e-14


def test_segments_and_padding(make: Callable[..., Factors]) -> None:
    """The stabiliser starts again at a segment and passes padding unchanged."""
    factors = make(5.0, length=12, num_factors=2)
    starts = torch.zeros(2, 12, dtype=torch.bool)
    starts[0, 5] = starts[1, 9] = True
    real = torch.ones(2, 12, dtype=torch.bool)
    real[:, 7] = False
    log_max = stabilise(factors, starts=starts, real=real).log_max
    torch.testing.assert_close(log_max[:, 7], log_max[:, 6])
    for row, start in ((0, 5), (1, 9)):
        names = (*NAMES,)
        parts = {name: getattr(factors, name)[row : row + 1, start:] for name in names}
        alone = stabilise(replace(factors, **parts), real=real[row : row + 1, start:]).log_max
        torch.testing.assert_close(log_max[row : row + 1, start:], alone)
    assert not torch.allclose(log_max[:, 9:], stabilise(factors, real=real).log_max[:, 9:])


@pytest.mark.parametrize("cuts", [[1], [4, 5, 17], [0, 7]])
def test_going_on_from_a_state(make: Callable[..., Factors], cuts: list[int]) -> None:
    factors = make(5.0, length=21, num_factors=2, key_width=5)
    whole, last, last_log_max = run_normalised(factors)
    state, log_max, pieces = None, None, []
    for a, b in zip([0, *cuts], [*cuts, 21], strict=True):
        part = replace(factors, **{name: getattr(factors, name)[:, a:b] for name in NAMES})
        out, state, log_max = run_normalised(part, initial_state=state, initial_log_max=log_max)
        pieces.append(out)
    torch.testing.assert_close(torch.cat(pieces, 1), whole, atol=FLOAT64, rtol=FLOAT64)
    torch.testing.assert_close(state, last, atol=FLOAT64, rtol=FLOAT64)
    torch.testing.assert_close(log_max, last_log_max, atol=FLOAT64, rtol=FLOAT64)


def test_second_derivatives(make: Callable[..., Factors]) -> None:
    factors = make(2.0, length=4, batch=1, heads=1, key_width=2, value_width=1)
    leaves = [getattr(factors, name).clone().requires_grad_() for name in NAMES]

    def run(*tensors: Tensor) -> Tensor:
        return run_normalised(Factors(**dict(zip(NAMES, tensors, strict=True))))[0]

    assert torch.autograd.gradgradcheck(run, leaves)


def test_half_precision_is_computed_in_float32(make: Callable[..., Factors]) -> None:
    factors = make(3.0, length=21)
    half = replace(factors, **{name: getattr(factors, name).half() for name in NAMES})
    same = replace(half, **{name: getattr(half, name).float() for name in NAMES})
    output, state, log_max = run_normalised(half)
    assert output.dtype == state.dtype == log_max.dtype == torch.float32
    assert torch.equal(output, run_normalised(same)[0])


def test_what_is_refused(make: Callable[..., Factors]) -> None:
    factors = make(length=3)
    with pytest.raises(ValueError, match="log_write: normalised factors are run by"):
        run_factors(factors)
    with pytest.raises(ValueError, match="log_write must be given"):
        run_normalised(replace(factors, log_write=None))
    with pytest.raises(ValueError, match="skip must be None"):
        run_normalised(replace(factors, skip=torch.ones(2, dtype=torch.float64)))


@pytest.mark.interpreter
@pytest.mark.filterwarnings("ignore")  # of FLA and Triton, about a machine without a GPU
@pytest.mark.parametrize("num_factors", [1, 2])
def test_flas_kernel_runs_it(
    fla: ModuleType, make: Callable[..., Factors], num_factors: int
) -> None:
    """Values and all gradients of float32 kernels against the float64 token loop."""
    factors = make(3.0, length=70, num_factors=num_factors, batch=1, key_width=16, value_width=16)
    expected = with_gradients(lambda one: run_normalised(one, backend="reference")[0], factors)
    narrow = replace(factors, **{name: getattr(factors, name).float() for name in NAMES})
    found = with_gradients(lambda one: run_normalised(one, backend="fla")[0], narrow)
    for name, target in expected.items():
        error = (found[name].double() - target).norm() / target.norm()
        assert error < 1e-4, f"{name}: {error:.1e}"  # measured: 2e-5, and 1e-5 of `chunked`
