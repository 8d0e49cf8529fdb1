"""Every route of the `fla` backend: FLA's own kernels under Triton's interpreter, in float32.

The kernels compute in float32 and the reference in float64, so the bound is that of float32 sums;
kernels that refuse float32 run in float16.
"""

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType

import pytest
import torch
from torch import Tensor

from lt2theory.ops import Factors, explain_recurrence, run_factors
from lt2theory.ops.fla.kernels import DELTA_RULE, GATED_DELTA_RULE, GLA, KDA, Kernel
from lt2theory.ops.fla.recurrence import fla_recurrence
from lt2theory.ops.fla.steps import run_kernel
from lt2theory.ops.reference import reference_recurrence

pytestmark = [pytest.mark.interpreter, pytest.mark.usefixtures("fla")]

# Relative Euclidean norm. Sums of float32 over 80 steps; float16 rounds every operand of a product.
BOUNDS = {torch.float32: 2e-5, torch.float16: 4e-3}

# FLA adds log decays up in float32: 8 resets of -110 and the sum's half ulp make 880 * 2^-24.
RESET_BOUND = 1e-4

Make = Callable[..., Factors]
Gradients = Callable[..., dict[str, Tensor]]
Run = Callable[..., tuple[Tensor, Tensor]]


def doubled(factors: Factors) -> Factors:
    names = ("q", "k", "v", "log_decay", "beta", "write")
    tensors = {name: getattr(factors, name) for name in names}
    return replace(factors, **{n: None if x is None else x.double() for n, x in tensors.items()})


def state_of(factors: Factors) -> Tensor:
    batch, _, heads, width = factors.q.shape
    generator = torch.Generator().manual_seed(9)
    return torch.randn(batch, heads, width, factors.v.shape[-1], generator=generator)


def compare(
    run: Run,
    factors: Factors,
    gradients: Gradients,
    state: Tensor | None,
    bound: float | None = None,
) -> None:
    exact = None if state is None else state.double()
    found = gradients(run, factors, state)
    expected = gradients(reference_recurrence, doubled(factors), exact)
    for name, want in expected.items():
        error = (found[name].double() - want).norm() / want.norm()
        assert error <= (bound or BOUNDS[factors.q.dtype]), f"{name}: {error:.1e}"
    assert found["state"].dtype == torch.float32
    assert found["output"].dtype == factors.v.dtype


@pytest.mark.parametrize(
    ("decay", "beta", "kernel"),
    [
        ("none", None, "chunk_linear_attn"),
        ("scalar", None, "chunk_simple_gla"),
        ("vector", None, "chunk_gla"),
        ("none", "uniform", "chunk_gated_delta_rule"),
        ("scalar", "uniform", "chunk_gated_delta_rule"),
        ("vector", "uniform", "chunk_kda"),
    ],
)
@pytest.mark.parametrize(("length", "num_factors"), [(67, 1), (33, 2), (17, 1), (9, 3)])
def test_every_route(
    make_factors: Make,
    gradients: Gradients,
    decay: str,
    beta: str | None,
    kernel: str,
    length: int,
    num_factors: int,
) -> None:
    factors = make_factors(
        length=length,
        num_factors=num_factors,
        key_width=16,
        value_width=16,
        batch=1,
        heads=1 if kernel == "chunk_kda" else 2,  # it takes ten times as long as the others
        decay=decay,
        beta=beta,
        dtype=torch.float32,
    )
    assert kernel in str(explain_recurrence(factors, backend="fla"))
    compare(fla_recurrence, factors, gradients, state_of(factors))


@pytest.mark.parametrize(
    ("kernel", "decay", "beta"),
    [(GLA, "scalar", None), (KDA, "none", "uniform"), (KDA, "scalar", "uniform")],
)
def test_a_richer_kernel_does_a_poorer_ones_work(
    make_factors: Make, gradients: Gradients, kernel: Kernel, decay: str, beta: str | None
) -> None:
    factors = make_factors(
        length=37, key_width=16, value_width=16, batch=1, decay=decay, beta=beta, heads=1,
        dtype=torch.float32,
    )  # fmt: skip
    compare(lambda f, s: run_kernel(kernel, f, s), factors, gradients, state_of(factors))


def test_the_kernel_that_refuses_float32(make_factors: Make, gradients: Gradients) -> None:
    factors = make_factors(
        length=71, key_width=16, value_width=16, batch=1, beta=0.5, dtype=torch.float16
    )
    assert DELTA_RULE.name in str(explain_recurrence(factors, backend="fla"))
    compare(fla_recurrence, factors, gradients, state_of(factors))


@pytest.mark.parametrize(("decay", "beta"), [("vector", None), ("scalar", "uniform")])
def test_odd_widths_writes_and_no_state(
    make_factors: Make, gradients: Gradients, decay: str, beta: str | None
) -> None:
    factors = make_factors(
        length=19, key_width=5, value_width=19, heads=1, decay=decay, beta=beta,
        write=beta is None, dtype=torch.float32,
    )  # fmt: skip
    compare(fla_recurrence, replace(factors, scale=0.7), gradients, None)


@pytest.mark.parametrize(
    ("decay", "beta"),
    [("scalar", None), ("vector", None), ("scalar", "uniform"), ("vector", "uniform")],
)
def test_resets_are_exact(
    make_factors: Make, gradients: Gradients, decay: str, beta: str | None
) -> None:
    factors = make_factors(
        length=40, key_width=16, value_width=16, batch=1, heads=1, decay=f"{decay}-reset",
        beta=beta, dtype=torch.float32,
    )  # fmt: skip
    compare(fla_recurrence, factors, gradients, state_of(factors), RESET_BOUND)
    assert factors.log_decay is not None
    log_decay = factors.log_decay.clone()
    log_decay[:, 7] = -1000.0
    cut = replace(factors, log_decay=log_decay)
    other = replace(cut, v=torch.cat([cut.v[:, :7] + 1, cut.v[:, 7:]], 1))
    first, second = fla_recurrence(cut)[0], fla_recurrence(other)[0]
    assert torch.equal(first[:, 7:], second[:, 7:])
    assert not torch.equal(first[:, :7], second[:, :7])


@pytest.mark.parametrize("decay", ["none", "scalar", "vector"])
@pytest.mark.parametrize("beta", [None, "uniform"])
def test_single_tokens_continue_a_sequence(
    make_factors: Make, decay: str, beta: str | None
) -> None:
    factors = make_factors(
        length=3, num_factors=2, key_width=16, value_width=16, decay=decay, beta=beta,
        dtype=torch.float32,
    )  # fmt: skip
    state, outputs = None, []
    for t in range(3):
        names = ("q", "k", "v", "log_decay", "beta")
        at = {n: getattr(factors, n) for n in names}
        token = replace(factors, **{n: x[:, t : t + 1] for n, x in at.items() if x is not None})
        assert "fused_recurrent" in str(explain_recurrence(token, backend="fla"))
        output, state = run_factors(token, initial_state=state, backend="fla")
        outputs.append(output)
    want, final = reference_recurrence(doubled(factors))
    torch.testing.assert_close(torch.cat(outputs, 1).double(), want, rtol=1e-5, atol=1e-5)
    assert state is not None
    torch.testing.assert_close(state.double(), final, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("decay", ["none", "scalar", "vector"])
@pytest.mark.parametrize("beta", [None, "uniform"])
def test_single_tokens_have_gradients(
    make_factors: Make, gradients: Gradients, decay: str, beta: str | None
) -> None:
    factors = make_factors(
        length=1, key_width=16, value_width=16, batch=1, heads=1, decay=decay, beta=beta,
        dtype=torch.float32,
    )  # fmt: skip
    compare(fla_recurrence, factors, gradients, state_of(factors))


def test_second_derivatives_are_refused(make_factors: Make) -> None:
    factors = make_factors(length=5, key_width=16, heads=1, beta=0.5, dtype=torch.float32)
    k = factors.k.clone().requires_grad_()
    output, _ = fla_recurrence(replace(factors, k=k))
    with pytest.raises(ValueError, match="first derivatives only; ask for 'chunked'"):
        torch.autograd.grad(output.sum(), k, create_graph=True)


def test_the_guard_is_lifted_during_our_backward_pass_only(
    make_factors: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fla.ops.common import chunk_o

    monkeypatch.setattr(chunk_o, "IS_NVIDIA_HOPPER", True)
    monkeypatch.setattr(chunk_o, "TRITON_ABOVE_3_4_0", True)
    monkeypatch.setattr(chunk_o, "TRITON_ABOVE_3_7_1", False)
    factors = make_factors(
        length=5, key_width=16, heads=1, decay="scalar", beta=0.5, dtype=torch.float32
    )
    k = factors.k.clone().requires_grad_()
    leaf = replace(factors, k=k)
    output, _ = run_kernel(GATED_DELTA_RULE, leaf)
    with pytest.raises(RuntimeError, match="640"):
        torch.autograd.grad(output.sum(), k)
    output, _ = run_kernel(GATED_DELTA_RULE, leaf, lift_guard=True)
    assert chunk_o.TRITON_ABOVE_3_7_1 is False
    (found,) = torch.autograd.grad(output.sum(), k)
    assert chunk_o.TRITON_ABOVE_3_7_1 is False
    output, _ = run_kernel(KDA, leaf)
    (want,) = torch.autograd.grad(output.sum(), k)
    torch.testing.assert_close(found, want, rtol=1e-4, atol=1e-5)


def test_auto_leaves_the_interpreter_alone(make_factors: Make) -> None:
    choice = explain_recurrence(make_factors(length=64, dtype=torch.float32))
    assert "not fla: Triton's interpreter is there for tests" in str(choice)


def test_empty_sequences(make_factors: Make, fla: ModuleType) -> None:
    factors = make_factors(length=0, dtype=torch.float32)
    output, state = fla_recurrence(factors, torch.ones(2, 2, 4, 3))
    assert output.shape == (2, 0, 2, 3)
    assert torch.equal(state, torch.ones(2, 2, 4, 3))
