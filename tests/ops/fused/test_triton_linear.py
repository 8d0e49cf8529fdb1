"""Products of a few rows against float64.

In Triton's interpreter on any machine, and on a GPU where there is one.
"""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

DEVICES = [
    pytest.param("cpu", marks=pytest.mark.interpreter),
    pytest.param("cuda", marks=pytest.mark.gpu),
]


def draw(*size: int, seed: int, device: str, dtype: torch.dtype = torch.float32) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*size, generator=rng).to(device, dtype)


def error(found: Tensor, wanted: Tensor) -> float:
    assert found.isfinite().all()
    return float((found.double() - wanted.double()).norm() / wanted.double().norm())


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("rows", [1, 17, 40])
@pytest.mark.parametrize(("width", "outputs"), [(140, 26), (768, 20), (70, 4097)])
@pytest.mark.parametrize("kind", ["plain", "norm", "swiglu", "norm swiglu", "residual"])
def test_products(device: str, rows: int, width: int, outputs: int, kind: str) -> None:
    from lt2theory.ops.fused.triton_linear import few_rows_linear

    x = draw(rows, width, seed=1, device=device)
    weight = draw(outputs * (2 if "swiglu" in kind else 1), width, seed=2, device=device)
    weight *= width**-0.5
    residual = draw(rows, outputs, seed=3, device=device) if kind == "residual" else None
    out = torch.full((rows, outputs), torch.nan, device=device)
    eps = 1e-5 if "norm" in kind else None
    found = few_rows_linear(x, weight, out, eps=eps, swiglu="swiglu" in kind, residual=residual)
    wide = x.double()
    wide = F.rms_norm(wide, (width,), eps=1e-5) if eps is not None else wide
    wanted = wide @ weight.double().T
    if "swiglu" in kind:
        wanted = F.silu(wanted[:, :outputs]) * wanted[:, outputs:]
    if residual is not None:
        wanted += residual.double()
    assert found is out
    assert error(found, wanted) < 2e-6
    again = few_rows_linear(
        x, weight, torch.empty_like(out), eps=eps, swiglu="swiglu" in kind, residual=residual
    )
    assert torch.equal(found, again)


@pytest.mark.gpu
@pytest.mark.parametrize("rows", [8, 64])
@pytest.mark.parametrize("swiglu", [False, True])
@torch.no_grad()
def test_many_rounds_of_wide_products(rows: int, swiglu: bool) -> None:
    """Inputs that are still multiplied are not overwritten by those of a later round."""
    from lt2theory.ops.fused.triton_linear import few_rows_linear

    x = draw(rows, 2048, seed=1, device="cuda", dtype=torch.bfloat16)
    weight = draw(11264, 2048, seed=2, device="cuda", dtype=torch.bfloat16) * 2048**-0.5
    outputs = len(weight) // (2 if swiglu else 1)
    found = [
        few_rows_linear(x, weight, x.new_empty(rows, outputs), eps=1e-5, swiglu=swiglu)
        for _ in range(50)
    ]
    wanted = F.rms_norm(x.double(), (2048,), eps=1e-5) @ weight.double().T
    if swiglu:
        wanted = F.silu(wanted[:, :outputs]) * wanted[:, outputs:]
    assert error(found[0], wanted) < 3e-3
    assert all(torch.equal(again, found[0]) for again in found)
