"""Compiles what is launched for Hopper on a machine without a GPU, and launches nothing.

Triton's interpreter takes more than its compiler does: a tile of 96 numbers, operands of mixed
types, branches that give other types, tiles that no multiprocessor has the memory for. Here every
launch goes through Triton's own way to a binary, from what it makes of the arguments to `ptxas`.
What kernels should have written is anything afterwards, whole numbers are zero.
"""

import io
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from torch import Tensor

CAPABILITY = 90
MOST_SHARED = 227 * 1024
"""Bytes of shared memory that a program has on Hopper."""


@dataclass(frozen=True)
class Compiled:
    """What became of a kernel.

    Attributes:
        module: Where it stands, after `lt2theory.ops.`.
        name: Its name.
        warps: Warps of a program.
        registers: Registers of a thread.
        spilled: Bytes of a thread's registers that are kept in memory.
        shared: Bytes of shared memory of a program.
        serialized: Whether wide products wait for each other for want of registers.
    """

    module: str
    name: str
    warps: int
    registers: int
    spilled: int
    shared: int
    serialized: bool


class _Hopper:
    """What Triton asks a driver for before it launches."""

    def get_current_device(self) -> int:
        return -CAPABILITY  # a key among compiled kernels, which no device at hand has

    def get_current_stream(self, device: int) -> int:
        return 0

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", CAPABILITY, 32)


@contextmanager
def compiling(cache: Path, *, early: bool = False) -> Iterator[list[Compiled]]:
    """Inside, kernels are compiled where they would be launched, on tensors of the CPU.

    Args:
        cache: An empty folder for what Triton writes.
        early: Whether kernels that can begin before the one ahead has ended are launched so.

    Yields:
        Grows by every kernel that this process had not compiled yet.
    """
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    found: list[Compiled] = []
    launch = JITFunction.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> Any:
        with redirect_stdout(io.StringIO()) as said:
            kernel = launch(self, *args, grid=grid, warmup=True, **options)
        if said.getvalue():
            found.append(_described(self, kernel.metadata, said.getvalue()))
        for x in (*args, *options.values()):
            if isinstance(x, Tensor) and not x.is_floating_point():
                x.data.zero_()
        return kernel

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(cache))
        patch.setenv("TRITON_DUMP_PTXAS_LOG", "1")
        patch.setattr(driver, "_active", _Hopper())
        patch.setattr(JITFunction, "run", run)
        _answer(patch, early)
        yield found


def _described(kernel: Any, metadata: Any, said: str) -> Compiled:
    """What `ptxas -v` has said."""
    numbers = [re.search(rf"(\d+) {what}", said) for what in ("registers", "bytes spill stores")]
    registers, spilled = (int(number[1]) if number else -1 for number in numbers)
    module = kernel.__module__.removeprefix("lt2theory.ops.")
    shape = (metadata.num_warps, registers, spilled, metadata.shared)
    return Compiled(module, kernel.__name__, *shape, "serialized" in said)


def _answer(patch: pytest.MonkeyPatch, early: bool) -> None:
    """Have `overlaps` say so, wherever it was imported."""
    from lt2theory.ops.fused import triton_overlap

    asked = triton_overlap.overlaps
    for module in list(sys.modules.values()):
        if vars(module).get("overlaps") is asked:
            patch.setattr(module, "overlaps", lambda device: early)
