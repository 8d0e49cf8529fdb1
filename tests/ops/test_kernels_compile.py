"""Every kernel compiles for Hopper, fits its multiprocessors and keeps its numbers in registers.

No GPU is needed: see `compiling`. The doctor's checks launch the kernels, at odd sizes and in both
dtypes; then come the widths of the 1.3B models.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from lt2theory.bench.doctor.kernels.check import Draw, KernelCheck
from lt2theory.bench.doctor.kernels.table import KERNELS
from lt2theory.ops.workload import is_interpreting
from tests.ops.compiling import MOST_SHARED, Compiled, compiling
from tests.ops.full_scale import LAUNCHES, decode

Launch = Callable[[torch.dtype], None]

pytest.importorskip("triton")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(is_interpreting(), reason="the interpreter compiles nothing"),
]

DTYPES = ("float32", "bfloat16")
MOST_SPILLED = 700
"""Bytes of registers that a thread may keep in memory; most kernels keep none there."""
SPILLED = {
    # For training, with all keys of a state in registers: 2,100 and 1,524 with keys of 96.
    "triton_delta.triton_forward": 2300,
    "triton_delta.triton_backward": 2300,
}
"""Of modules whose kernels may keep more there."""
SERIALIZED = {("sparse.triton_masked", "key_gradient_kernel")}
"""Kernels of which `ptxas` says that wide products wait for each other."""


def check(found: list[Compiled]) -> None:
    for kernel in found:
        assert kernel.shared <= MOST_SHARED, kernel
        assert 0 < kernel.registers <= 255, kernel
        assert 0 <= kernel.spilled <= SPILLED.get(kernel.module, MOST_SPILLED), kernel
        assert not kernel.serialized or (kernel.module, kernel.name) in SERIALIZED, kernel


def str_of(x: object) -> str:
    return getattr(x, "__name__", str(x).removeprefix("torch."))


def launch(check_of: KernelCheck, dtype: str) -> None:
    """What the doctor runs, forward and backward."""
    generator = torch.Generator().manual_seed(0)
    problem = check_of.build(Draw(generator, getattr(torch, dtype), "cpu"))
    with torch.set_grad_enabled(problem.differentiable):
        leaves = {name: x.clone().requires_grad_() for name, x in problem.inputs.items()}
        found = [y for y in problem.run(leaves).values() if y.requires_grad]
        if found:
            torch.autograd.backward(found, [torch.zeros_like(y) for y in found])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_at_the_sizes_of_the_doctor(kernel: KernelCheck, dtype: str, tmp_path: Path) -> None:
    with compiling(tmp_path) as found:
        launch(kernel, dtype)
    check(found)
    assert {each.module for each in found} <= set(kernel.modules)


@pytest.mark.parametrize(("run", "dtype"), LAUNCHES, ids=str_of)
def test_at_full_scale(run: Launch, dtype: torch.dtype, tmp_path: Path) -> None:
    with compiling(tmp_path) as found:
        run(dtype)
    check(found)


@pytest.mark.parametrize("pattern", ["gdn", "full", "window(512)", "nsa", "dsa"])
def test_decoding_at_full_scale(
    pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on Hopper, where a kernel begins while the one ahead still runs."""
    with compiling(tmp_path, early=True) as found:
        decode(pattern, 8, 8300, monkeypatch)
    check(found)
    assert found or pattern != "gdn"


def test_a_tile_that_is_no_power_of_two(tmp_path: Path) -> None:
    """What the interpreter takes and the compiler does not."""
    from triton.compiler.errors import CompilationError

    from tests.ops.planted_kernel import fill_kernel

    with compiling(tmp_path) as found:
        fill_kernel[(1,)](torch.zeros(128), SIZE=128)
        assert [each.name for each in found] == ["fill_kernel"]
        with pytest.raises(CompilationError, match="power of 2"):
            fill_kernel[(1,)](torch.zeros(96), SIZE=96)
