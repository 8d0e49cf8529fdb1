"""What the products' TensorFloat-32 costs, on a GPU and in the interpreter that cuts like one.

Reflections (beta 2, no decay) over equal keys keep every error, and products that cut numbers
always make them smaller: the hardest case for the state.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from lt2theory.ops import Factors
from lt2theory.ops.chunked.recurrence import chunked_recurrence
from lt2theory.ops.selftest import TOLERANCES
from lt2theory.ops.triton_delta.recurrence import ahead_recurrence, triton_recurrence

Make = Callable[..., Factors]
Gradients = Callable[..., dict[str, Tensor]]

# Relative error of the state a reflection: some 1e-6 of float32 sums, which tensor cores cut too.
WHOLE = 5e-6

DEVICES = [
    pytest.param("cpu", marks=pytest.mark.interpreter),
    pytest.param("cuda", marks=pytest.mark.gpu),
]


def cut(x: np.ndarray) -> np.ndarray:
    """Float32 as the tensor cores of a GPU read it for TensorFloat-32: the last 13 bits gone."""
    return (np.ascontiguousarray(x).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


@pytest.fixture(autouse=True)
def _cut_products(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter's products are float32; here they cut their operands first."""
    from triton.runtime import interpreter

    def product(self: Any, a: Any, b: Any, start: Any, *_: Any) -> Any:
        assert a.data.dtype == b.data.dtype == np.float32
        found = np.matmul(cut(a.data), cut(b.data)) + start.data
        return interpreter.TensorHandle(found, start.dtype.scalar)

    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_dot", product)


def reflections(
    make_factors: Make, length: int, widths: tuple[int, int], apart: float, dtype: torch.dtype
) -> Factors:
    """Reflections by one key a head, or by keys that differ from it by `apart`."""
    factors = make_factors(
        length=length, key_width=widths[0], value_width=widths[1], batch=1, beta=2 - apart
    )
    noise = torch.randn(factors.k.shape, generator=torch.Generator().manual_seed(3))
    k = factors.k[:, :1] + apart * widths[0] ** -0.5 * noise.double()
    k = torch.nn.functional.normalize(k, dim=-1)
    assert factors.beta is not None
    return replace(
        factors,
        q=factors.q.to(dtype), k=k.to(dtype), v=factors.v.to(dtype), beta=factors.beta.to(dtype),
    )  # fmt: skip


def errors(gradients: Gradients, factors: Factors, device: str) -> dict[str, float]:
    """Relative errors against the chunked recurrence of the same numbers in float64."""
    f = factors
    assert f.beta is not None
    wide = replace(f, q=f.q.double(), k=f.k.double(), v=f.v.double(), beta=f.beta.double())
    here = replace(
        f, q=f.q.to(device), k=f.k.to(device), v=f.v.to(device), beta=f.beta.to(device)
    )  # fmt: skip
    wanted = gradients(chunked_recurrence, wide, None)
    found = gradients(triton_recurrence, here, None)
    return {n: float((found[n].cpu() - w).norm() / w.norm()) for n, w in wanted.items()}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("apart", [0.0, 0.05])
@pytest.mark.parametrize("widths", [(16, 16), (32, 24), (64, 64), (96, 40), (128, 32)])
def test_reflections_over_equal_keys(
    make_factors: Make,
    gradients: Gradients,
    device: str,
    dtype: torch.dtype,
    apart: float,
    widths: tuple[int, int],
) -> None:
    found = errors(gradients, reflections(make_factors, 71, widths, apart, dtype), device)
    assert found.pop("state") <= 71 * WHOLE
    for name, error in found.items():
        assert error <= TOLERANCES[dtype], f"{name}: {error:.1e}"


@pytest.mark.parametrize("device", DEVICES)
def test_the_loss_does_not_grow(make_factors: Make, gradients: Gradients, device: str) -> None:
    long = reflections(make_factors, 515, (32, 16), 0.0, torch.float32)
    found = errors(gradients, long, device)
    assert found.pop("state") <= 515 * WHOLE
    assert max(found.values()) <= TOLERANCES[torch.float32]


@pytest.mark.interpreter
def test_the_interpreter_cuts(make_factors: Make, gradients: Gradients) -> None:
    """Else this file would show nothing without a GPU."""
    once = errors(gradients, reflections(make_factors, 16, (16, 16), 0.0, torch.float32), "cpu")
    assert once["output"] > 3e-4


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("apart", [0.0, 0.05])
@pytest.mark.parametrize("widths", [(32, 24), (96, 40)])
def test_reflections_by_prepared_chunks(
    make_factors: Make, device: str, dtype: torch.dtype, apart: float, widths: tuple[int, int]
) -> None:
    """The kernels for long streams cut numbers of their own, and round them."""
    factors = reflections(make_factors, 131, widths, apart, dtype)
    found = value_errors(factors, device)
    assert found[1] <= 131 * WHOLE
    assert found[0] <= TOLERANCES[dtype]


def value_errors(f: Factors, device: str) -> list[float]:
    """Relative errors of the output and the state against the same numbers in float64."""
    assert f.beta is not None
    wide, here = (
        replace(f, q=change(f.q), k=change(f.k), v=change(f.v), beta=change(f.beta))
        for change in (Tensor.double, lambda x: x.to(device))
    )
    wanted, found = chunked_recurrence(wide, None), ahead_recurrence(here)
    return [float((x.cpu() - w).norm() / w.norm()) for x, w in zip(found, wanted, strict=True)]
