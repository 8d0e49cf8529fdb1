"""Norms, SwiGLU and the loop residual as operators, against plain torch in float64.

In Triton's interpreter on any machine, and on a GPU where there is one.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from lt2theory.ops.fused.add_norm import fused_add_rms_norm, plain_add_rms_norm
from lt2theory.ops.fused.gated_norm import fused_gated_rms_norm, plain_gated_rms_norm
from lt2theory.ops.fused.loop_residual import fused_loop_residual, plain_loop_residual
from lt2theory.ops.fused.norm import fused_rms_norm, plain_rms_norm
from lt2theory.ops.fused.rows import can_fuse_rows, product_dtype
from lt2theory.ops.fused.swiglu import fused_swiglu, plain_swiglu

DEVICES = [
    pytest.param("cpu", marks=pytest.mark.interpreter),
    pytest.param("cuda", marks=pytest.mark.gpu),
]
SIZES = [(1, 8), (3, 33), (257, 128), (9, 256), (2, 2100)]
EPS = 1e-5
HALF, WIDE = torch.bfloat16, torch.float32
Inputs = list[Tensor]
Function = Callable[[Inputs, torch.dtype], Any]


def _gated(run: Callable[..., Tensor], silu: bool) -> Function:
    def call(x: Inputs, dtype: torch.dtype) -> Tensor:
        heads = x[0].unflatten(0, (-1, 1))  # one head a row
        return run(heads, x[1].unsqueeze(1).flatten(-2), x[2], EPS, dtype, silu)

    return call


CASES: dict[str, tuple[Function, Function, str]] = {
    "norm": (
        lambda x, dtype: fused_rms_norm(x[0], x[2], EPS, dtype),
        lambda x, dtype: plain_rms_norm(x[0], x[2], EPS, dtype),
        "xw",
    ),
    "norm of a sum": (
        lambda x, dtype: fused_add_rms_norm(x[0], x[1], x[2], EPS, dtype),
        lambda x, dtype: plain_add_rms_norm(x[0], x[1], x[2], EPS, dtype),
        "xyw",
    ),
    "silu gate": (_gated(fused_gated_rms_norm, True), _gated(plain_gated_rms_norm, True), "xyw"),
    "sigmoid gate": (
        _gated(fused_gated_rms_norm, False),
        _gated(plain_gated_rms_norm, False),
        "xyw",
    ),
    "swiglu": (
        lambda x, _: fused_swiglu(torch.cat(x[:2], -1)),
        lambda x, _: plain_swiglu(torch.cat(x[:2], -1)),
        "xy",
    ),
    "residual": (
        lambda x, _: fused_loop_residual(*x),
        lambda x, _: plain_loop_residual(*x),
        "xyw",
    ),
}


def problem(rows: int, width: int) -> Inputs:
    rng = torch.Generator().manual_seed(5)
    shapes = ((rows, width), (rows, width), (width,))
    return [torch.randn(shape, generator=rng, dtype=torch.float64) for shape in shapes]


def weighted(found: Any) -> Tensor:
    """A scalar that asks every result for its gradient."""
    rng = torch.Generator().manual_seed(6)
    results = [found] if isinstance(found, Tensor) else found
    weights = [torch.randn(y.shape, generator=rng, dtype=torch.float64) for y in results]
    pairs = zip(weights, results, strict=True)
    return torch.stack([(w.to(y.device, y.dtype) * y).double().sum() for w, y in pairs]).sum()


def error(found: Tensor, wanted: Tensor) -> float:
    difference = found.detach().cpu().double() - wanted.detach()
    return float(difference.norm() / wanted.detach().norm())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtypes", [(WIDE, WIDE), (WIDE, HALF), (HALF, HALF)])
@pytest.mark.parametrize(("rows", "width"), SIZES)
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(
    device: str, dtypes: tuple[torch.dtype, torch.dtype], rows: int, width: int, case: str
) -> None:
    fused, plain, names = CASES[case]
    first, second = dtypes
    if case in ("swiglu", "residual"):
        second = first  # two tensors of one dtype
    kinds = {"x": first, "y": second, "w": WIDE}
    inputs = dict(zip("xyw", problem(rows, width), strict=True))
    given = [inputs[n].to(device, kinds[n]).requires_grad_() for n in names]
    exact = [x.detach().cpu().double().requires_grad_() for x in given]
    if len(given) == 2 and "w" in names:
        found = fused([given[0], given[0], given[1]], second)
        wanted = plain([exact[0], exact[0], exact[1]], torch.float64)
    else:
        found, wanted = fused(given, second), plain(exact, torch.float64)
    gradients = torch.autograd.grad(weighted(found), given)
    expected = torch.autograd.grad(weighted(wanted), exact)
    results = [found] if isinstance(found, Tensor) else list(found)
    answers = [wanted] if isinstance(wanted, Tensor) else list(wanted)
    rounding = 8e-3 if device == "cpu" else 4e-3  # the interpreter cuts off instead
    for y, w in zip(results, answers, strict=True):
        assert error(y, w) <= (rounding if HALF in dtypes else 1e-6)
    for x, g, w in zip(given, gradients, expected, strict=True):
        assert g.dtype == x.dtype
        assert error(g, w) <= (rounding if HALF in dtypes else 2e-6)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("case", CASES)
def test_gradients_have_gradients_and_are_the_same_twice(device: str, case: str) -> None:
    fused, plain, _ = CASES[case]
    found = []
    for run, dtype in ((fused, WIDE), (fused, WIDE), (plain, torch.float64)):
        given = [x.to(device, dtype).requires_grad_() for x in problem(300, 24)]
        once = torch.autograd.grad(weighted(run(given, dtype)), given, allow_unused=True)
        again = torch.autograd.grad(
            weighted(run(given, dtype)), given, allow_unused=True, create_graph=True
        )
        slope = sum(g.square().sum() for g in again if g is not None)
        assert isinstance(slope, Tensor)
        twice = torch.autograd.grad(slope, given, allow_unused=True)
        found.append([x for three in zip(once, again, twice, strict=True) for x in three])
    for one, other, exact in zip(*found, strict=True):
        if one is not None:
            assert torch.equal(one, other)
            assert error(one, exact.cpu().double()) <= 5e-6


OPERATORS: dict[str, Callable[[Inputs], tuple[Any, tuple[Any, ...]]]] = {
    "norm": lambda x: (fused_rms_norm, (x[0], x[2], EPS, HALF)),
    "norm of a sum": lambda x: (fused_add_rms_norm, (*x, EPS, HALF)),
    "gated": lambda x: (
        fused_gated_rms_norm,
        (x[0][:, None].detach().requires_grad_(), x[1], x[2], EPS, HALF, True),
    ),
    "swiglu": lambda x: (fused_swiglu, (x[0],)),
    "residual": lambda x: (fused_loop_residual, tuple(x)),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", OPERATORS)
def test_are_operators_of_torch(device: str, name: str) -> None:
    inputs = [x.to(device, WIDE).requires_grad_() for x in problem(5, 24)]
    operator, arguments = OPERATORS[name](inputs)
    torch.library.opcheck(operator, arguments)


def test_a_cpu_float64_and_few_numbers_take_plain_torch() -> None:
    x = torch.zeros(1024, 128)
    assert not can_fuse_rows(x)
    assert product_dtype(x) == WIDE
    with torch.autocast("cpu", HALF):
        assert product_dtype(x) == WIDE


@pytest.mark.gpu
def test_a_gpu_takes_kernels_for_training() -> None:
    x = torch.zeros(1024, 128, device="cuda")
    assert can_fuse_rows(x)
    assert not can_fuse_rows(x.double())
    assert not can_fuse_rows(x[:8])
    assert product_dtype(x) == WIDE
    with torch.autocast("cuda", HALF):
        assert product_dtype(x) == HALF
        assert product_dtype(x.double()) == torch.float64
    assert torch.func.vmap(lambda y: torch.tensor(can_fuse_rows(y)) + 0 * y[:1])(x).sum() == 0
