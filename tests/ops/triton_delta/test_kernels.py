"""The Triton kernels of the delta rule against the float64 reference, and how torch sees them.

In Triton's interpreter on any machine, where products are float32, and on a GPU where there is one.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from lt2theory.ops import Factors, explain_recurrence, run_factors
from lt2theory.ops.reference import reference_recurrence
from lt2theory.ops.selftest import TOLERANCES
from lt2theory.ops.triton_delta.recurrence import triton_recurrence
from lt2theory.ops.triton_delta.tiles import Tiles, tiles_of

Make = Callable[..., Factors]
Gradients = Callable[..., dict[str, Tensor]]

DEVICES = [
    pytest.param("cpu", marks=pytest.mark.interpreter),
    pytest.param("cuda", marks=pytest.mark.gpu),
]
EXACT = 2e-5  # relative Euclidean norm: float32 sums over some 130 steps

TENSORS = ("q", "k", "v", "log_decay", "beta", "write")


def mapped(factors: Factors, change: Callable[[Tensor], Tensor]) -> Factors:
    tensors = {name: getattr(factors, name) for name in TENSORS}
    return replace(factors, **{n: None if x is None else change(x) for n, x in tensors.items()})


def state_of(factors: Factors) -> Tensor:
    batch, _, heads, width = factors.q.shape
    shape = (batch, heads, width, factors.v.shape[-1])
    return torch.randn(shape, generator=torch.Generator().manual_seed(9))


def compare(
    gradients: Gradients,
    factors: Factors,
    device: str,
    state: Tensor | None = None,
) -> None:
    """Values and gradients; the reference gets the same numbers in float64."""
    wanted = gradients(
        reference_recurrence,
        mapped(factors, Tensor.double),
        None if state is None else state.double(),
    )
    found = gradients(
        triton_recurrence,
        mapped(factors, lambda x: x.to(device)),
        None if state is None else state.to(device),
    )
    bound = EXACT if device == "cpu" else TOLERANCES[factors.q.dtype]
    for name, want in wanted.items():
        error = (found[name].cpu().double() - want).norm() / want.norm()
        assert error <= bound, f"{name}: {error:.1e}"
    assert found["state"].dtype == torch.float32
    assert found["output"].dtype == factors.v.dtype


@pytest.fixture
def poisoned() -> Iterator[None]:
    """Buffers begin as NaN, so that what is read before it is written shows."""
    torch.use_deterministic_algorithms(True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("length", "num_factors", "widths", "decay", "beta", "write"),
    [
        (1, 1, (16, 16), "scalar", "uniform", False),
        (31, 1, (24, 48), "scalar", "uniform", False),
        (130, 1, (16, 16), "scalar", "uniform", False),
        (67, 1, (32, 24), "none", "uniform", False),
        (31, 3, (48, 16), "scalar", "uniform", True),
        (9, 2, (5, 3), "none", "uniform", True),
        (33, 1, (16, 32), "scalar", None, True),
        (33, 1, (32, 16), "none", None, False),
        (67, 1, (24, 40), "scalar", None, False),
        (23, 3, (16, 24), "scalar", None, True),
        (131, 1, (16, 16), "scalar", None, True),
        (35, 1, (64, 64), "scalar", None, False),
        (17, 1, (128, 70), "scalar", "uniform", False),
        (35, 1, (96, 192), "scalar", "uniform", False),
    ],
)
def test_values_and_gradients(
    make_factors: Make,
    gradients: Gradients,
    device: str,
    length: int,
    num_factors: int,
    widths: tuple[int, int],
    decay: str,
    beta: str | None,
    write: bool,
) -> None:
    factors = make_factors(
        length=length, num_factors=num_factors, key_width=widths[0], value_width=widths[1],
        batch=1, decay=decay, beta=beta, write=write, dtype=torch.float32,
    )  # fmt: skip
    compare(gradients, replace(factors, scale=0.7), device, state_of(factors))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("log_steps", [4, 5, 6])
def test_chunks_of_every_size(
    make_factors: Make,
    gradients: Gradients,
    monkeypatch: pytest.MonkeyPatch,
    device: str,
    log_steps: int,
) -> None:
    """And programs that share the values of a head."""
    from lt2theory.ops.triton_delta import op

    tiles = Tiles(16, 16, log_steps, 4, 4)
    monkeypatch.setattr(op, "tiles_of", lambda keys, values: tiles)
    factors = make_factors(
        length=67, key_width=16, value_width=40, batch=1, heads=1, decay="scalar-mixed",
        beta="uniform", dtype=torch.float32,
    )  # fmt: skip
    assert tiles.count(40) == 3
    compare(gradients, factors, device, state_of(factors))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("decay", ["scalar-reset", "scalar-strong", "scalar-one", "scalar-mixed"])
@pytest.mark.parametrize("beta", ["uniform", None])
def test_any_decay(
    make_factors: Make, gradients: Gradients, device: str, decay: str, beta: str | None
) -> None:
    factors = make_factors(
        length=40, key_width=16, value_width=16, batch=1, decay=decay, beta=beta,
        write=beta is None, order="erase_first", dtype=torch.float32,
    )  # fmt: skip
    if decay == "scalar-strong":  # e^-20 a step: what is small comes from one step alone
        slower = torch.linspace(0.1, 1, 40)[:, None, None]
        factors = replace(factors, log_decay=factors.log_decay * slower)
    compare(gradients, factors, device)


@pytest.mark.parametrize("device", DEVICES)
def test_a_decay_of_zero_cuts(make_factors: Make, device: str) -> None:
    factors = make_factors(
        length=40, key_width=16, value_width=16, decay="scalar", beta="uniform",
        dtype=torch.float32,
    )  # fmt: skip
    assert factors.log_decay is not None
    log_decay = factors.log_decay.clone()
    log_decay[:, 7] = -torch.inf
    cut = mapped(
        replace(factors, log_decay=log_decay), lambda x: x.to(device, copy=True).requires_grad_()
    )
    other = replace(cut, v=torch.cat([cut.v[:, :7] + 1, cut.v[:, 7:]], 1))
    first, second = triton_recurrence(cut)[0], triton_recurrence(other)[0]
    assert torch.equal(first[:, 7:], second[:, 7:])
    assert not torch.equal(first[:, :7], second[:, :7])
    first[:, 7:].square().sum().backward()
    for x in (cut.v, cut.k, cut.beta):
        assert x is not None
        assert not x.grad[:, :7].any(), "no gradient crosses"
        assert x.grad.isfinite().all()
    assert cut.log_decay is not None
    gradient = cut.log_decay.grad
    # Those of decays are differences of sums over a chunk, of which float32 leaves a last digit.
    assert gradient[:, :7].abs().max() <= 1e-5 * gradient.abs().max()
    assert not gradient[:, 7].any()


@pytest.mark.parametrize("device", DEVICES)
def test_no_future_token_is_seen(make_factors: Make, device: str) -> None:
    factors = make_factors(
        length=37, num_factors=2, key_width=16, value_width=16, decay="scalar", beta="uniform",
        dtype=torch.float32,
    )  # fmt: skip
    here = mapped(factors, lambda x: x.to(device))

    def changed(x: Tensor) -> Tensor:
        return torch.cat([x[:, :21], 0.5 * x[:, 21:]], 1)

    before, after = triton_recurrence(here)[0], triton_recurrence(mapped(here, changed))[0]
    assert torch.equal(before[:, :21], after[:, :21])
    assert not torch.equal(before[:, 21], after[:, 21])


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_of_the_state_alone_and_of_nothing(make_factors: Make, device: str) -> None:
    factors = make_factors(length=20, key_width=16, value_width=16, beta=0.5, dtype=torch.float32)
    here = mapped(factors, lambda x: x.to(device, copy=True).requires_grad_())
    triton_recurrence(here)[1].sum().backward()
    assert not here.q.grad.any()
    exact = mapped(factors, lambda x: x.detach().double().requires_grad_())
    reference_recurrence(exact)[1].sum().backward()
    assert (here.v.grad.cpu().double() - exact.v.grad).norm() <= 5e-3 * exact.v.grad.norm()
    with torch.no_grad():
        assert not triton_recurrence(here)[0].requires_grad


@pytest.mark.parametrize("device", DEVICES)
def test_strides_do_not_matter(make_factors: Make, device: str) -> None:
    factors = make_factors(length=20, key_width=16, value_width=16, beta=0.5, dtype=torch.float32)
    here = mapped(factors, lambda x: x.to(device))
    apart = mapped(here, lambda x: torch.stack([x, x], -1)[..., 0])
    assert not apart.k.is_contiguous()
    assert torch.equal(triton_recurrence(apart)[0], triton_recurrence(here)[0])


@pytest.mark.parametrize("device", DEVICES)
def test_second_derivatives_are_refused(make_factors: Make, device: str) -> None:
    factors = make_factors(length=5, key_width=16, heads=1, beta=0.5, dtype=torch.float32)
    here = mapped(factors, lambda x: x.to(device, copy=True).requires_grad_())
    with pytest.raises(ValueError, match="first derivatives only; ask for 'chunked'"):
        torch.autograd.grad(triton_recurrence(here)[0].sum(), here.k, create_graph=True)


@pytest.mark.parametrize("device", DEVICES)
def test_torch_knows_the_operators(make_factors: Make, device: str) -> None:
    """Schema, shapes and autograd: what `torch.compile` takes for granted."""
    from lt2theory.ops.triton_delta.op import delta_rule, delta_rule_backward

    factors = make_factors(
        length=20, key_width=16, value_width=16, decay="scalar", beta=0.5, dtype=torch.float32
    )
    here = mapped(factors, lambda x: x.to(device))
    five = (here.q, here.k, here.v, here.log_decay, here.beta)
    leaves = tuple(x.clone().requires_grad_() for x in five)
    tests = ("test_schema", "test_faketensor", "test_autograd_registration")
    torch.library.opcheck(delta_rule, (*leaves, None, None, 0.3, True), test_utils=tests)
    out, _, states, inverses = delta_rule(*five, None, None, 0.3, True)
    backward = (out, None, *five, None, states, inverses, 0.3)
    torch.library.opcheck(delta_rule_backward, backward, test_utils=tests[:2])


@pytest.mark.gpu
@pytest.mark.parametrize(
    "widths", [(16, 16), (32, 32), (64, 64), (100, 100), (128, 128), (96, 192), (32, 256)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_widths_and_dtypes(
    make_factors: Make, gradients: Gradients, widths: tuple[int, int], dtype: torch.dtype
) -> None:
    factors = make_factors(
        length=131, key_width=widths[0], value_width=widths[1], decay="scalar", beta="uniform",
        dtype=dtype,
    )  # fmt: skip
    compare(gradients, factors, "cuda", state_of(factors))


@pytest.mark.gpu
@pytest.mark.parametrize("width", [8, 32, 64, 128])
@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_no_erasure(
    make_factors: Make, gradients: Gradients, width: int, write: bool, dtype: torch.dtype
) -> None:
    """RetNet, and Mamba-2 with its write strengths."""
    factors = make_factors(
        length=131, key_width=width, value_width=width, decay="scalar", write=write, dtype=dtype
    )
    compare(gradients, factors, "cuda", state_of(factors))


@pytest.mark.gpu
def test_a_compiled_graph_replays(make_factors: Make) -> None:
    """Compiled without a break, and captured: nothing waits for the device or its memory.

    What is compiled is the operator: the run-time checks around it, on in tests, are no code that
    torch.compile can trace.
    """
    from lt2theory.ops.triton_delta.op import delta_rule

    factors = make_factors(
        length=70, key_width=32, value_width=32, decay="scalar", beta="uniform",
        dtype=torch.float32,
    )  # fmt: skip
    here = mapped(factors, Tensor.cuda)
    leaves = [x.clone().requires_grad_() for x in (here.q, here.k, here.v)]

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        rest = (here.log_decay, here.beta, None, None, 0.3, True)
        output: Tensor = delta_rule(q * 1.0, k, v, *rest)[0]
        return output.square().sum()

    compiled = torch.compile(run, fullgraph=True)
    wanted = torch.autograd.grad(run(*leaves), leaves)
    found = torch.autograd.grad(compiled(*leaves), leaves)
    for got, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(got, want)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = torch.autograd.grad(run(*leaves), leaves)
    graph.replay()
    for got, want in zip(captured, wanted, strict=True):
        assert torch.equal(got, want)


@pytest.mark.interpreter
def test_empty_sequences(make_factors: Make) -> None:
    factors = make_factors(length=0, dtype=torch.float32)
    output, state = triton_recurrence(factors, torch.ones(2, 2, 4, 3))
    assert output.shape == (2, 0, 2, 3)
    assert torch.equal(state, torch.ones(2, 2, 4, 3))


@pytest.mark.interpreter
def test_by_name_and_not_by_auto(make_factors: Make) -> None:
    factors = make_factors(
        length=33, key_width=16, value_width=16, decay="scalar", beta=0.5, dtype=torch.float32
    )
    choice = explain_recurrence(factors)
    assert "not triton: Triton's interpreter is there for tests" in str(choice)
    output, _ = run_factors(factors, backend="triton")
    torch.testing.assert_close(output, run_factors(factors)[0], rtol=1e-4, atol=1e-5)
    tiles = tiles_of(16, 16)
    assert f"chunks of {1 << tiles.log_steps} factor steps" in str(
        explain_recurrence(factors, backend="triton")
    )
